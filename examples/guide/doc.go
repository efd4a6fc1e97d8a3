// Package guide holds the programs of the guide, docs/guide/: a folder for each page.
package guide
