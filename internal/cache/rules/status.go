package rules

import "strconv"

// Report is what Cache-Status says of a response (RFC 9211).
type Report struct {
	Hit       bool
	Why       Reason // why it went to the origin, or was served although it was not fresh
	Status    int    // the origin's answer to a revalidation, 0 for none
	TTL       int64  // nanoseconds of freshness left, negative when it is stale; with HasTTL
	HasTTL    bool
	Stored    bool   // the origin's answer was stored
	Collapsed bool   // the request waited for another one's answer
	NotStored Reason // why it was not
	Second    bool   // a hit in the cache's second tier
}

// AppendStatus appends the member of Cache-Status for this cache, whose name is a token.
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

// floorSeconds rounds towards the past, so that what is stale by less than a second is seen to be.
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

// AppendContentRange appends the value of Content-Range for a reply with 206 or 416 of a body of
// length bytes.
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

// InNotModified says whether a stored field is sent with a 304. Those that describe the content are
// not (RFC 9110, section 15.4.5): the client has them. Last-Modified goes where there is no ETag.
func InNotModified(name []byte, tagged bool) bool {
	for _, n := range [...]string{"content-length", "content-encoding", "content-type",
		"content-language", "content-range"} {
		if is(name, n) {
			return false
		}
	}
	return !tagged || !is(name, "last-modified")
}
