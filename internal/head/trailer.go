package head

import "bytes"

// MayTrail says whether a field called name, whose ID is id, may stand in a trailer section that is
// passed on (RFC 9110, section 6.5.1).
//
// Names that the gateway knows may not: each means something for framing, routing, trust,
// authentication or caching, and is read from heads only. Nor may what else modifies a request,
// describes the content or controls the response, nor any name with '_', which could be read as one
// of those by a service that merges trailers into the head.
func MayTrail(name []byte, id ID) bool {
	if id != Other || bytes.IndexByte(name, '_') >= 0 {
		return false
	}
	for _, prefix := range headOnlyPrefixes {
		if len(name) >= len(prefix) && FoldsTo(name[:len(prefix)], prefix) {
			return false
		}
	}
	for _, whole := range headOnly {
		if FoldsTo(name, whole) {
			return false
		}
	}
	return true
}

// Further names, and how names begin, that belong into a head.
var (
	headOnlyPrefixes = []string{
		"access-control-", "content-", "if-", "proxy-", "sec-", "x-forwarded", "x-original-",
		"x-real-", "x-rewrite-",
	}
	headOnly = []string{
		"age", "expires", "max-forwards", "pragma", "retry-after", "status",
		"strict-transport-security", "warning",
		"www-authenticate",
	}
)
