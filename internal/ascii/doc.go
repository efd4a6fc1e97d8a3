// Package ascii writes JSON that holds nothing but printable ASCII: characters of a
// foreign text that turn or hide what a terminal or an editor shows are escaped.
package ascii
