// Package upgradetest tests a rolling upgrade of a program on a backend: two versions of it
// beside each other, whose specs differ in the name of a field. It is for tests.
package upgradetest
