// Package declare keeps the objects of a store as a file declares them, and follows the
// file while it changes.
//
//	file, err := declare.New(sites, sitesCache, "sites.json", nil)
//	err = manager.Register(file.Controller(), …)
//
// The file is JSON: a list of declarations, or one after the other.
//
//	[{"meta": {"name": "shop", "labels": {"tier": "1"}}, "spec": {"Servers": 3}}]
//
// [Options.Decode] reads any other form; cmd/tend and the examples bring YAML.
//
// # What happens to the file
//
//   - It is looked at every second ([Options.Every]). A content that has changed is taken
//     when it was the same at two looks in a row, so that a file that is being written in
//     place is not read half. An atomic rename and the swap of a symbolic link, as a mounted
//     ConfigMap is changed, are seen too: the link's target counts.
//   - A file that cannot be read, is gone, or is not what Decode accepts changes
//     nothing: what was declared stays in force. The log and [File.Left] say why, and so
//     does Health of a file that cannot be read. What Decode refuses parks the file's key,
//     which is no matter of Health: metrics count it, and the debug page shows it.
//   - The content is applied with [store.Store.Apply]: what is new is created, what differs
//     updated, what is gone deleted. If more would be deleted than [Options.MaxDelete]
//     allows, nothing is written, and the file waits for another content, or for a kick of
//     its key ("tend kick"), after which MaxDelete is asked again. With the default, which
//     always says the same, first delete by hand what may go ("tend delete").
//   - An object of the file that others delete is created again. A field that the file declares and a
//     program changes is changed back, and so is a label or an annotation (thirty times at once, then once a second: promise
//     R5); one that the file leaves out stays as others fill it in, also by
//     late initialisation of package external. A declared field that a person edited ([store.Store.UpdateByHand],
//     "tend edit"), or that another declarer has, is left and named ([store.ErrOwned]), and everything else
//     is applied: let the file say the same, edit it back, or take it over with "tend apply -force" of this
//     file. A field that the file declares no longer is unset.
//   - Two declarations of one object, a JSON field given twice in one spelling, an unknown field, and an
//     object that is there and was not declared by this file are errors.
//
// # Several servers
//
// The file is a controller with one key, its path. On a backend that servers share, the
// Manager runs it on one server at a time, and its writes are fenced. That server's copy
// of the file counts: while copies differ, the objects are as the present holder's copy
// says.
//
// # What is not
//
// Nothing is written to the file. A content that was there for less than two looks may be
// missed. A change that keeps size and modification time of a file that was written
// more than two seconds ago is not seen before the next one.
package declare
