// Package route finds the route of a request. It has two parts: the one canonical form of a path
// (Canonical), and a table of patterns with conditions (Compile, Table.Match).
//
// It must not know what a route does, how a config spells it, or which protocol carried the
// request: a table maps a request to an index into its caller's routes, and that is all.
//
// # Patterns
//
// They are those of net/http's ServeMux: "[METHOD ][HOST]/[PATH]", where a segment of the path is a
// literal, {name} for one segment, {rest...} for all that follows, or {$} for the end after a
// slash; a pattern that ends in a slash matches everything below it. GET matches HEAD too. The most
// specific pattern wins, whatever the order, and two patterns that match a common request while
// neither is more specific are an error. What differs from ServeMux:
//
//   - A host may be a wildcard, "*.example.com", for names with one or more labels in front of
//     ".example.com". An exact host beats a wildcard, a longer wildcard beats a shorter one, and
//     any host beats none. As in ServeMux, if no pattern of the better host matches, the request is
//     looked up under the next one.
//   - Hosts are matched without port, without the dot of a fully qualified name and without regard
//     to case.
//   - Several rules may have the same pattern if all but at most one of them have conditions. They
//     are tried in order, the one without conditions last. If none applies, the search continues
//     with less specific patterns.
//   - "/dir" is not redirected to "/dir/"; it is not a match for the pattern "/dir/".
//   - A pattern that could never match, because no canonical path looks like it, is an error.
//
// Literals are compared by what they decode to, as in ServeMux: "/users:all" also matches the path
// "/users%3Aall", so that an encoding cannot lead around a route. Only %2F and %25 are not decoded.
// A semicolon is an ordinary character: path parameters are part of their segment.
package route
