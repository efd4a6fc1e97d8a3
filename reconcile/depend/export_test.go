package depend

// Classes is for tests of the running controller.
var Classes = classes
