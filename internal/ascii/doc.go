// Package ascii writes JSON that holds nothing but printable ASCII: what a text of
// somebody else's turns round or hides, in a terminal or an editor that shows the
// JSON, is escaped.
package ascii
