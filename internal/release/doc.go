// Command release makes a release of tend, from the root of the repository:
//
//	go run ./internal/release                   rehearse: nothing is left behind
//	go run ./internal/release -version v0.1.0   release; git push stays with you
//	go run ./internal/release -api APIDIFF      show what changed in the API
//	go run ./internal/release -beside           run servers of the last release and of this version together
//
// All modules are released together, under one version, from one commit: each go.mod
// file that git knows, except for those of bench and internal and below them.
//
// With -version it runs .ci/run first. Then, with or without it, it clones the
// repository into a temporary folder and there
//
//   - sets the version in every go.mod file, drops the replace directives, and gives
//     the CHANGELOG's section "Unreleased" the version's title,
//   - commits that, tags every module on this commit, and adds their checksums,
//   - acts as a new user, with none of tend's modules in the module cache: gets each module into an empty
//     one, runs a program that imports all its packages, and installs and runs commands by version,
//   - commits the replace directives again, with the new versions.
//
// Only if all that works, and only with -version, the commits and the tags are
// fetched into the repository, and it prints the git push command that remains.
//
// With -api it prints how the exported names of the released modules differ from
// those of the last release, by golang.org/x/exp/cmd/apidiff, and fails unless the
// CHANGELOG's section "Unreleased" names every change that breaks programs. Before the
// first release it names none: docs/RENAMES.md does.
//
// With -beside it builds the examples leader, sharded and quota of the last release (or of -old COMMIT)
// and of this version, and runs servers of both on one etcd and on one PostgreSQL, as in the
// middle of a deployment. They are killed, stopped and started, and it fails if a key is worked
// on by two, or by none. Then a program of an earlier commit and one of this version read and edit what the
// other has stored (testdata/records), on both and in a file, and it fails if they differ or if a field is lost.
package main
