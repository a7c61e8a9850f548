package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestAMachineThatIsWellGetsNoAdvice(t *testing.T) {
	r := newFake(t).examine(fakePID)
	for _, f := range r.Findings {
		if f.Name == "backlog in force" {
			// Files cannot say it: the kernel does, which does not know this socket.
			if f.Verdict != Unreadable || !strings.Contains(f.Why, "0.0.0.0:8080") {
				t.Errorf("%+v", f)
			}
			continue
		}
		if f.Verdict != Good || f.Command != "" || f.Recommended != "" || f.Value == "" ||
			f.Why == "" {
			t.Errorf("%+v", f)
		}
	}
	if len(r.Findings) != len(checks)-3 { // but for the speeds
		t.Errorf("%d findings of %d checks", len(r.Findings), len(checks))
	}
	if p := r.Process; p == nil || p.PID != fakePID || p.Name != "shop" ||
		!strings.HasPrefix(p.Go, "go1.") {
		t.Errorf("%+v", p)
	}
}

func TestTheSpeedsAreMeasuredWithinTheirTime(t *testing.T) {
	v, err := measureSpeeds(context.Background(), 1)
	if err != nil || v.encrypted <= 0 || v.ecdsaCost <= 0 || v.rsaCost <= 0 {
		t.Errorf("%+v, %v: even without time there is one of each", v, err)
	}
	ended, end := context.WithCancel(context.Background())
	end()
	if _, err := measureSpeeds(ended, usualSpeed); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	for _, judge := range []func(*subject, speeds) opinion{
		judgeEncryption, judgeHandshakesECDSA, judgeHandshakesRSA,
	} {
		if o := judge(nil, speeds{5e9, 1e-4, 1e-3}); o.advise || o.value == "" {
			t.Errorf("%+v", o)
		}
	}
	if o := judgeEncryption(nil, speeds{encrypted: 1e8}); !o.advise {
		t.Errorf("%+v", o)
	}
	if o := judgeHandshakesECDSA(nil, speeds{ecdsaCost: 1e-4}); o.value !=
		fmt.Sprintf("%s a second and core (%s each)", "10,000", "100 µs") {
		t.Error(o.value)
	}
}
