package exchange

// Step is what a client gets where the live answer cannot be had. The steps are taken in this order,
// as far as the SLA class of the exchange allows them.
type Step uint8

// The steps.
const (
	StepLive   Step = iota // nothing stands in for the live answer; the zero value
	StepCache              // a stored answer that is fresh
	StepStale              // a stored answer that is not
	StepStatic             // the answer that the configuration gives
	Steps
)

var stepText = [Steps]string{StepCache: "cache", StepStale: "stale", StepStatic: "static"}

// String is the step's name in configurations, headers, metrics and logs; empty for StepLive.
func (s Step) String() string { return stepText[s] }

// Barred are the SLA classes that may not have a step, bit 0 for P0, by step. The zero value bars
// nobody.
type Barred [Steps]uint16

// Allows says whether exchanges of the class may have the step.
func (b *Barred) Allows(step Step, class uint8) bool { return b[step]>>class&1 == 0 }

// MayDegrade says whether the refusal that the exchange has may be replaced by a step: because the
// upstream failed, or because the exchange was shed to protect something. Only GET and HEAD are
// answered so: an answer to anything else would say that something was done that was not.
func (x *Exchange) MayDegrade() bool {
	if fault := x.Reason.Fault(); fault != UpstreamFault && fault != ProtectionFault {
		return false
	}
	method := x.Request.Method
	return string(method) == "GET" || string(method) == "HEAD"
}
