// Package objects shows and edits the objects of stores without knowing their Go types:
// for pages, HTTP interfaces and commands.
//
//	k := objects.Of(buckets)        // with the type: all of it, secrets hidden
//	k, err := objects.Bare(b, "bucket", false)  // without: metadata only
//
// # What it promises
//
//   - No secret leaves by [Object.JSON], [Object.Conditions] or an error: fields tagged
//     tend:"secret" read "(secret)", and an object that is written back with that text
//     keeps the stored value.
//   - Every write is that of the typed store: it compares the revision, is validated,
//     and carries the guards of its context.
//
// # What it does not
//
// A caller that may write an object can guess its secrets: it writes guesses into an
// annotation, and the right one reads "(secret)". Short secrets, as a PIN, are not protected
// from it, long random ones are.
//
// [Bare] cannot know which fields of a spec are secret, so it shows none unless told to,
// and writes metadata only.
package objects
