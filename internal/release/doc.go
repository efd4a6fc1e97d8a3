// Command release makes a release of tend, from the root of the repository:
//
//	go run ./internal/release                   rehearse: nothing is left behind
//	go run ./internal/release -version v0.1.0   release; git push stays with you
//	go run ./internal/release -api APIDIFF      show what changed in the API
//	go run ./internal/release -beside           run servers of the last release and of this version together
//
// All modules are released together, under one version, from one commit. Every
// go.mod file that git knows is a module of the release, except for those of bench,
// of internal and of what lies below them.
//
// With -version it runs .ci/run first. Then, with or without it, it clones the
// repository into a temporary folder and there
//
//   - sets the version in every go.mod file, drops the replace directives of the
//     released modules, adds the checksums of the released modules to each other's
//     go.sum files, and turns the CHANGELOG's section "Unreleased" into the
//     version's section,
//   - commits that, and tags every module on this commit,
//   - commits the replace directives again, with the new versions in the require
//     directives,
//   - acts as a new user: gets each released module into an empty one, with none of
//     tend's modules in the module cache, runs a program that imports all its
//     packages, installs its commands by version, and runs examples/quickstart by
//     version.
//
// Only if all that works, and only with -version, the commits and the tags are
// fetched into the repository. What remains is the git push command that it prints.
//
// With -api it prints how the exported names of the released modules differ from
// those of the last release, by golang.org/x/exp/cmd/apidiff, and fails unless the
// CHANGELOG's section "Unreleased" names every change that breaks programs.
//
// With -beside it builds the examples leader and sharded of the last release (or of -old COMMIT)
// and of this version, and runs servers of both on one etcd and on one PostgreSQL, as in the
// middle of a deployment. They are killed, stopped and started, and it fails if a key is worked
// on by two, or by none. Then a program of an earlier commit and one of this version read and edit what the
// other has stored (testdata/records), on both and in a file, and it fails if they differ or if a field is lost.
package main
