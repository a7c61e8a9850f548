// Package policy documents the order in which a route's policies run. Each policy is a room of its
// own below this one: it imports the exchange and nothing above, knows no other policy, and is
// immutable or atomic, for all loops use it at once.
//
// The order is fixed. A route's chain holds only what the route names, and:
//
//  1. client address (forwarded.ResolveClient and DropClaims, for every exchange, before its route
//     is looked up): whose request it is, and nothing left of what a stranger claims; everything
//     behind may ask.
//  2. access: who may not come in costs nothing more.
//  3. requestid, 4. trace: whatever is said about the exchange from here on can carry its name.
//  5. cors: a preflight is answered before anything counts it as a request.
//  6. limit: a request that is one too many costs little more than its id, which its refusal has,
//     as it has the fields of CORS without which no script could read it.
//  7. maxbody: a body that is too long is refused before an upstream is chosen for it.
//  8. split: chooses among upstreams. 9. mirror: chooses whether another gets a copy.
//  10. rewrite: gives the path that is forwarded. Conditions, keys and variables go on seeing the
//     client's.
//  11. forwarded: says what is known of the client: For, Proto, and the Host as the client sent it.
//  12. headers, the request's: last, so that a route's own words win over the gateway's, and
//     ${request_id} has its value. A Host that is set takes effect after everything else was read
//     from the exchange.
//  13. the action: proxy, or respond or redirect, which are policies that always answer.
//
// The data plane strips the fields that Connection names between steps 1 and 2; otherwise a client
// could have step 11's removed.
//
// Policies act on responses in the same order: ladder, which acts on nothing else and stands in front
// of step 2, then requestid, then cors, then limit, then the response's headers last, whose words
// win. They act on the gateway's own answers, refusals included, as on an upstream's. Ladder is
// first because it may replace such an answer with all its fields.
package policy
