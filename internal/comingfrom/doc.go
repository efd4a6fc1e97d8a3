// Package comingfrom checks the pages for users of another library
// (COMING-FROM-*.md, beside the packages that they are about): that each has all
// the names of the other side, and none of ours that is not in the code.
//
// A page holds one table, from their names to ours:
//
//	| theirs | in tend | what is different |
//	|---|---|---|
//	| `Result.Requeue` | `reconcile.Result.Requeue` | with backoff |
//	| `Runtime` | – | a field of your reconciler |
//
// # Design notes
//
// The names are looked up in the source, not by reflection: a page names functions
// and fields too. Only names of our packages are looked at, so that a page may
// quote whatever else it likes. For tests; nothing else imports it.
package comingfrom
