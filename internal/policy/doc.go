// Package policy documents the order in which a route's policies run. Each policy is a package
// below this one. It imports the exchange and nothing above it, knows no other policy, and is
// immutable or atomic, because all loops use it at once.
//
// The order is fixed. A route's chain has only the policies that its route needs:
//
//  1. client address (forwarded.ResolveClient and DropClaims, for every exchange, before its route
//     is looked up): finds out whose request it is, and removes what an untrusted client claims.
//     All later steps may use the address.
//  2. access: a client that is refused costs nothing more.
//  3. requestid, 4. trace: whatever is logged about the exchange from here on can carry its id.
//  5. cors: a preflight is answered before anything counts it as a request.
//  6. limit: a request over a limit costs little more than its id. Its refusal has that id, and the
//     CORS fields, without which no script could read it.
//  7. maxbody: a body that is too long is refused before an upstream is chosen for it.
//  8. split: chooses among upstreams. 9. mirror: chooses whether another gets a copy.
//  10. rewrite: sets the path that is forwarded. Conditions, keys and variables still see the
//     client's path.
//  11. forwarded: tells the upstream what is known of the client: For, Proto, and the Host as the
//     client sent it.
//  12. headers, for the request: last, so that a route's own settings win over the gateway's, and
//     ${request_id} has its value. A Host that is set takes effect after everything else was read
//     from the exchange.
//  13. the action: proxy, or respond or redirect, which are policies that always answer.
//
// Between steps 1 and 2 the data plane strips the fields that Connection names. Otherwise a client
// could have the fields of step 11 removed.
//
// Policies act on responses in the same order: ladder, then requestid, cors, limit, and the
// response's headers last, so that they win. They act on the gateway's own answers, refusals
// included, as on an upstream's. Ladder acts on responses only and stands in front of step 2. It is
// first because it may replace a whole answer with all its fields.
package policy
