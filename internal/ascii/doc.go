// Package ascii keeps foreign texts from commanding a terminal or an editor: what turns or
// hides what is shown is escaped in JSON, and replaced in other texts.
package ascii
