// Package cache documents how the two rooms below it are used together: rules decides, store holds.
// Neither knows an exchange or a loop.
//
// A policy and the loop go through a request like this:
//
//  1. rules.Request.Read takes in the head. Key.AppendURI and AppendFields make the primary key in
//     memory of the exchange; Store.Lookup finds what is stored under it. Where that is a marker (Vary
//     is not nil), AppendVariant makes the variant's key, which is looked up too.
//  2. Options.Decide says what to do with what was found, or with nothing.
//  3. Serve: rules.Fields reads the block into the response, Request.Reply says which status and
//     which bytes, Entry.Slices gives them some pieces at a time for a vectored write. Age, Cache-Status
//     and Content-Range are appended. Release comes when the last byte was taken by the socket.
//  4. ServeAndRefresh, or Serve when rules.EarlyRefresh says so: the same, and the one that Entry.Refresh
//     chooses does step 6 beside it, with no client and with rules.Request.Own.
//  5. Pass: the exchange goes on as without a cache. When it is over, rules.Invalidates and Locations
//     say what Store.PurgeURI has to forget; HeadOutdates does so for HEAD.
//  6. Fetch and Revalidate: Store.Begin makes the caller the filler, or finds the one there is.
//     Everybody, the filler's own client too, joins as a Reader, whose Waker posts to its loop;
//     readers of one loop had better share a post, for thousands may wait for one fetch. Who cannot
//     join any more looks the key up again. The filler sends Options.Forward's fields with GET and
//     tells the fill what comes: Head when Options.Judge says MayStore (SetVary first, where
//     Options.Vary has names), Refuse when it does not, Append, and Finish or Fail; for a 304,
//     Renew with what Freshen made. It ends its fill in every case, whatever becomes of its client.
//  7. A reader looks at Head: a Private fill sends it on its own, and so does an entry that varies and
//     whose key is not the reader's own (Entry.Key). A fill that is Broken before its head came
//     lets the reader serve what is stale where the decision said StaleIfError, and otherwise go on
//     its own, once. One that breaks later cuts the response, as a broken upstream connection does.
//  8. A wait is bounded by the policy: a reader that has waited too long closes and does as in 7.
package cache
