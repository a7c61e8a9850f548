package rules

// Reason says why a request was not simply answered from the cache, or why an answer was not
// stored. Its text is the detail of Cache-Status and a label of counters.
type Reason uint8

// The reasons. Miss to Revalidation say why a request goes on to the origin, the rest from
// Stored on what became of the answer.
const (
	NoReason       Reason = iota
	Miss                  // nothing is stored under the key
	VaryMiss              // something is stored, but for other values of the fields it varies by
	Method                // not GET or HEAD
	HeadMiss              // HEAD, and nothing to answer it from
	Content               // the request has a body, or wants another protocol
	Precondition          // If-Match or If-Unmodified-Since, which the origin must evaluate
	RangeMiss             // a range of something that is not stored
	RequestNoStore        // the client's no-store
	RequestReload         // the client's no-cache
	RequestMaxAge         // the client wants something fresher than what is stored
	Stale                 // the stored response is no longer fresh
	NeverFresh            // no-cache: every use needs the origin's consent
	Early                 // a hot answer is refreshed before it is stale
	Refused               // answered with 504, as the client asked
	Pressure              // stale, served to relieve an overloaded service
	Failed                // stale, served because the origin failed
	Revalidating          // stale, served while it is refreshed
	ClientAllows          // stale, served because the client accepts it

	MayStore       // it may be stored
	NotGet         // answers to the method are not stored
	Informational  // the status is not a final one
	Partial        // 206
	Validation     // 304 although there was nothing to validate
	TooEarly       // 425
	NoStoreSaid    // no-store
	PrivateSaid    // private
	Unreadable     // Cache-Control or Vary cannot be read
	Unknown        // must-understand, and a status that this cache does not know
	VaryAll        // Vary: *
	VaryAdded      // it varies by a field that the gateway adds
	VaryTooMuch    // it varies by more than maxVarying fields
	Authorized     // for a request with Authorization, and not declared as being for all
	WithCookie     // for a request with Cookie that the key does not have
	SetsCookie     // it sets a cookie
	NotForStatus   // neither the response nor its status allows storing it
	NotFresh       // it is never fresh and cannot be revalidated
	TooManyFields  // its fields are longer than a stored head may be
	Mismatch       // a 304 that does not refer to the stored response
	NotKept        // there is no room for it
	reasonsCounted // the count
)

// reasonWords has, for each Reason, RFC 9211's word for why a request was forwarded (section 2.2)
// and the free text of its detail (section 2.8).
var reasonWords = [reasonsCounted]struct{ forward, detail string }{
	Miss:           {"uri-miss", ""},
	VaryMiss:       {"vary-miss", ""},
	Method:         {"method", ""},
	HeadMiss:       {"method", "head"},
	Content:        {"bypass", "request-content"},
	Precondition:   {"bypass", "precondition"},
	RangeMiss:      {"bypass", "range"},
	RequestNoStore: {"request", "request-no-store"},
	RequestReload:  {"request", "request-no-cache"},
	RequestMaxAge:  {"request", "request-max-age"},
	Stale:          {"stale", ""},
	NeverFresh:     {"stale", "no-cache"},
	Early:          {"", "early-refresh"},
	Refused:        {"", "only-if-cached"},
	Pressure:       {"", "overload"},
	Failed:         {"", "stale-if-error"},
	Revalidating:   {"", "stale-while-revalidate"},
	ClientAllows:   {"", "max-stale"},
	NotGet:         {"", "method"},
	Informational:  {"", "interim"},
	Partial:        {"", "partial"},
	Validation:     {"", "not-modified"},
	TooEarly:       {"", "too-early"},
	NoStoreSaid:    {"", "no-store"},
	PrivateSaid:    {"", "private"},
	Unreadable:     {"", "unreadable"},
	Unknown:        {"", "must-understand"},
	VaryAll:        {"", "vary-star"},
	VaryAdded:      {"", "vary-added"},
	VaryTooMuch:    {"", "vary-fields"},
	Authorized:     {"", "authorization"},
	WithCookie:     {"", "cookie"},
	SetsCookie:     {"", "set-cookie"},
	NotForStatus:   {"", "status"},
	NotFresh:       {"", "never-fresh"},
	TooManyFields:  {"", "head-size"},
	Mismatch:       {"", "validator-mismatch"},
	NotKept:        {"", "no-room"},
}

// Reasons is the number of reasons, including NoReason.
const Reasons = reasonsCounted

// Personal reports whether a response is not stored because of the client that requested it, which
// says nothing about what other clients would get.
func (r Reason) Personal() bool { return r == Authorized || r == WithCookie }

// Label is the reason in one word, for counters.
func (r Reason) Label() string {
	if words := reasonWords[r]; words.detail != "" {
		return words.detail
	}
	return reasonWords[r].forward
}

// Forward is RFC 9211's word for why a request was forwarded to the origin; empty if it was not.
func (r Reason) Forward() string { return reasonWords[r].forward }

// Detail is a word that is more specific than Forward; empty if there is nothing to add.
func (r Reason) Detail() string { return reasonWords[r].detail }
