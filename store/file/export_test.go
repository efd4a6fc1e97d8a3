package file

var Check = check
