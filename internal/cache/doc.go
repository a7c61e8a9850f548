// Package cache documents how the two packages below it are used together: rules decides, store
// holds. Neither knows an exchange or a loop.
//
// A policy and the loop process a request like this:
//
//  1. rules.Request.Read reads the head. Key.AppendURI and AppendFields make the primary key in
//     memory of the exchange, and Store.Lookup finds what is stored under it. If that is a marker
//     (Vary is not nil), AppendVariant makes the variant's key, which is looked up too.
//  2. Options.Decide says what to do with what was found, or with nothing.
//  3. Serve: rules.Fields reads the stored block into the response, Request.Reply says which status
//     and which bytes, and Entry.Slices gives them a few pieces at a time for a vectored write.
//     Age, Cache-Status and Content-Range are appended. Release is called when the socket has taken
//     the last byte.
//  4. ServeAndRefresh, or Serve when rules.EarlyRefresh says so: the same as step 3. In addition,
//     the caller that Entry.Refresh chooses performs step 6, without a client and with
//     rules.Request.Own.
//  5. Pass: the exchange continues as without a cache. When it is over, rules.Invalidates and
//     Locations say what Store.PurgeURI has to forget. For HEAD, HeadOutdates does.
//  6. Fetch and Revalidate: Store.Begin makes the caller the filler, or finds the existing fill.
//     Every client, the filler's own included, joins as a Reader, whose Waker posts to its loop.
//     Readers of one loop should share a post, because thousands may wait for one fetch. A reader
//     that can no longer join looks the key up again. The filler sends the fields of
//     Options.Forward with GET and tells the fill what arrives: Head when Options.Judge says
//     MayStore (SetVary first, if Options.Vary has names), Refuse when it does not, Append, and
//     Finish or Fail. For a 304 it calls Renew with the result of Freshen. It ends its fill in
//     every case, whatever happens to its client.
//  7. A reader looks at Head. If the fill is Private, the reader sends its request on its own. It
//     does the same if the entry varies and its key is not the reader's own (Entry.Key). If a fill
//     is Broken before its head arrived, the reader serves what is stale if the decision said
//     StaleIfError. Otherwise it goes on its own, once. A fill that breaks later cuts the response
//     off, as a broken upstream connection does.
//  8. The policy limits the wait: a reader that has waited too long closes and continues as in 7.
package cache
