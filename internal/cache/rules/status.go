package rules

import "strconv"

// Report is what Cache-Status reports about a response (RFC 9211).
type Report struct {
	Hit       bool
	Why       Reason // why the request went to the origin, or got a response that is not fresh
	Status    int    // the status of the origin's answer to a revalidation; 0 for none
	TTL       int64  // nanoseconds of freshness left, negative when it is stale; with HasTTL
	HasTTL    bool
	Stored    bool   // the origin's answer was stored
	Collapsed bool   // the request waited for the answer to another
	NotStored Reason // why the answer was not stored
	Second    bool   // a hit in the cache's second tier
}

// AppendStatus appends this cache's member of Cache-Status. name must be a token.
func AppendStatus(dst []byte, name string, p *Report) []byte {
	dst = append(dst, name...)
	if p.Hit {
		dst = append(dst, "; hit"...)
	} else if word := p.Why.Forward(); word != "" {
		dst = append(append(dst, "; fwd="...), word...)
		if p.Status != 0 {
			dst = strconv.AppendInt(append(dst, "; fwd-status="...), int64(p.Status), 10)
		}
	}
	if p.HasTTL {
		dst = strconv.AppendInt(append(dst, "; ttl="...), floorSeconds(p.TTL), 10)
	}
	if p.Stored {
		dst = append(dst, "; stored"...)
	}
	if p.Collapsed {
		dst = append(dst, "; collapsed"...)
	}
	detail := p.Why.Detail()
	if p.NotStored != NoReason && p.NotStored != MayStore {
		detail = p.NotStored.Detail()
	}
	if detail == "" && p.Second {
		detail = "redis"
	}
	if detail != "" {
		dst = append(append(dst, "; detail="...), detail...)
	}
	return dst
}

// floorSeconds rounds down, so that a response that is stale by less than a second shows as stale.
func floorSeconds(ns int64) int64 {
	s := ns / second
	if ns%second < 0 {
		s--
	}
	return s
}

// AppendAge appends the value of Age for an age in nanoseconds (RFC 9111, section 5.1).
func AppendAge(dst []byte, age int64) []byte {
	return strconv.AppendInt(dst, min(max(age, 0)/second, maxDelta), 10)
}

// AppendContentRange appends the value of Content-Range for a reply with status 206 or 416. length
// is the length of the whole body in bytes.
func AppendContentRange(dst []byte, reply *Reply, length int64) []byte {
	dst = append(dst, "bytes "...)
	if reply.Status == 416 {
		dst = append(dst, '*')
	} else {
		dst = strconv.AppendInt(dst, reply.From, 10)
		dst = append(dst, '-')
		dst = strconv.AppendInt(dst, reply.To-1, 10)
	}
	dst = append(dst, '/')
	return strconv.AppendInt(dst, length, 10)
}

// InNotModified reports whether a stored field is sent with a 304. Fields that describe the content
// are not (RFC 9110, section 15.4.5), because the client has them. Last-Modified is sent only if
// there is no ETag, that is, if tagged is false.
func InNotModified(name []byte, tagged bool) bool {
	for _, n := range [...]string{"content-length", "content-encoding", "content-type",
		"content-language", "content-range"} {
		if is(name, n) {
			return false
		}
	}
	return !tagged || !is(name, "last-modified")
}
