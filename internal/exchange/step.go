package exchange

// Step is what a client gets if the live answer is not available. The steps are tried in this
// order, as far as the exchange's SLA class allows them.
type Step uint8

// The steps.
const (
	StepLive   Step = iota // nothing stands in for the live answer; the zero value
	StepCache              // a fresh stored answer
	StepStale              // a stale stored answer
	StepStatic             // the answer given by the configuration
	Steps
)

var stepText = [Steps]string{StepCache: "cache", StepStale: "stale", StepStatic: "static"}

// String is the step's name in configurations, headers, metrics and logs; empty for StepLive.
func (s Step) String() string { return stepText[s] }

// Barred is, for each step, the set of SLA classes that may not have it, with bit 0 for P0. The
// zero value bars no class.
type Barred [Steps]uint16

// Allows reports whether exchanges of the class may have the step.
func (b *Barred) Allows(step Step, class uint8) bool { return b[step]>>class&1 == 0 }

// MayDegrade reports whether a step may replace the exchange's refusal: if the upstream failed, or
// the exchange was shed to protect something. It may only for GET and HEAD, because a stored answer
// to any other method would claim that something was done that was not.
func (x *Exchange) MayDegrade() bool {
	if fault := x.Reason.Fault(); fault != UpstreamFault && fault != ProtectionFault {
		return false
	}
	method := x.Request.Method
	return string(method) == "GET" || string(method) == "HEAD"
}
