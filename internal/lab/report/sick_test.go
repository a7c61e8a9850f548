package report_test

import (
	"fmt"
	"math/rand/v2"

	"plimsoll/internal/lab/diagnose"
	"plimsoll/internal/lab/profile"
)

// sick is a diagnosis with a finding of each rank.
func sick() *diagnose.Diagnosis {
	return &diagnose.Diagnosis{
		First: diagnose.Limit{
			What:  "the target's processor time",
			Share: .97,
			Why:   "3.9 of 4 cores were busy at the line",
		},
		Findings: sickFindings(),
		HeldBack: []diagnose.HeldBack{{
			Rule:  "lock-contention",
			Claim: "A lock holds requests up",
			Why:   "its waits do not grow with the rate",
		}},
		NotJudged: []diagnose.NotJudged{{
			Rule:    "database-pool-small",
			Missing: "no figures of a pool: the service has no metrics page with database/sql's",
		}},
		Flames: []diagnose.Flame{
			{Title: "At the line", Root: grown(3, 2000, false), Unit: "processor seconds a second"},
			{
				Title:      "From half of the line to the line",
				Root:       grown(3, 2000, true),
				Difference: true,
				Unit:       "processor milliseconds a request",
			},
		},
	}
}

func sickFindings() []diagnose.Finding {
	return []diagnose.Finding{
		{
			Rule:       "json-hot",
			Claim:      "Encoding JSON takes 41 % of the processor time at the load line",
			Rank:       diagnose.Binding,
			Confidence: .93,
			Evidence: []diagnose.Fact{
				{
					What:      "processor time in encoding/json at the line",
					Value:     "41 %",
					Threshold: "15 %",
					Reason:    "below that, the cure gains less than what a survey can see",
				},
				{What: "at half the line", Value: "39 %"},
			},
			Against: []diagnose.Fact{{
				What:      "waits for a lock",
				Value:     "0.2 %",
				Threshold: "5 %",
				Reason:    "a lock would hold the processor back",
			}},
			Where: []profile.Place{
				{Function: "main.(*Shop).products", File: "shop/products.go", Line: 84, Share: .38, Of: "of the processor time"},
				{Function: "main.(*Shop).cart", File: "shop/cart.go", Line: 12, Share: .03, Of: "of the processor time"},
			},
			Advice: []diagnose.Action{{
				Text: "Write the product list without reflection, or keep its bytes.",
				Command: "go tool pprof -list 'main.\\(\\*Shop\\).products' " +
					"steps/0009/cpu.pb.gz",
			}},
			Gain: diagnose.Gain{
				Factor: 1.6,
				Low:    1.4,
				High:   1.8,
				Why:    "the processor sets the line, and 38 of its 41 % would be saved",
			},
			Verify: diagnose.Action{
				Text: "Survey again, and compare: encoding/json should be gone from " +
					"the flame graph.",
				Command: "plimsoll compare plimsoll-runs/before plimsoll-runs/after",
			},
		},
		{
			Rule:       "gc-heavy",
			Claim:      "The garbage collector takes 18 % of the processor time",
			Rank:       diagnose.Cost,
			Confidence: .81,
			Evidence: []diagnose.Fact{{
				What:      "processor time of the collector",
				Value:     "18 %",
				Threshold: "10 %",
				Reason:    "the usual share at GOGC=100 is below",
			}},
			Advice: []diagnose.Action{{
				Text:    "The live heap is 12 MiB and there is room for 400.",
				Command: "GOGC=400 GOMEMLIMIT=360MiB ./shop",
			}},
			Gain: diagnose.Gain{
				Factor: 1.12,
				Low:    1.05,
				High:   1.16,
				Why:    "three of four collections would not be made",
			},
		},
		{
			Rule:       "descriptors-near-limit",
			Claim:      "At the line 960 of 1,024 descriptors were open",
			Rank:       diagnose.Risk,
			Confidence: .6,
			Evidence: []diagnose.Fact{{
				What:      "descriptors open",
				Value:     "960",
				Threshold: "820",
				Reason:    "four fifths of the limit",
			}},
			Gain: diagnose.Gain{Factor: 1},
		},
	}
}

// healthy is what is said of a service without a disease.
func healthy() *diagnose.Diagnosis {
	return &diagnose.Diagnosis{
		First: diagnose.Limit{
			What:  "the target's processor time",
			Share: .95,
			Why:   "3.8 of 4 cores were busy",
		},
	}
}

// grown is a tree of so many nodes with a few hundred names of the usual length.
func grown(seed uint64, nodes int, difference bool) *profile.Node {
	r := rand.New(rand.NewPCG(seed, 1))
	packages := []string{
		"main.(*Shop)", "net/http.(*conn)", "encoding/json.(*encodeState)", "runtime",
		"github.com/shop/internal/cart.(*Cart)", "reflect.Value", "internal/poll.(*FD)",
	}
	root := &profile.Node{Name: "all"}
	open, depths := []*profile.Node{root}, map[*profile.Node]int{}
	for i := range nodes - 1 {
		parent := open[max(0, len(open)-1-r.IntN(40))]
		if depths[parent] > 28 || r.IntN(12) == 0 {
			parent = open[r.IntN(min(len(open), 30))]
		}
		child := &profile.Node{
			Name: fmt.Sprintf("%s.handle%dRequest", packages[r.IntN(len(packages))], r.IntN(90)),
		}
		if i%40 == 39 {
			child.Name = profile.Folded
		}
		parent.Children = append(parent.Children, child)
		open, depths[child] = append(open, child), depths[parent]+1
	}
	weigh(root, r, difference)
	return root
}

// weigh gives each node a weight of its own and that of its children.
func weigh(n *profile.Node, r *rand.Rand, difference bool) {
	n.Weight = .001 * (1 + r.ExpFloat64())
	if difference {
		n.Before = n.Weight * (.3 + r.Float64())
	}
	for _, c := range n.Children {
		weigh(c, r, difference)
		n.Weight += c.Weight
		n.Before += c.Before
	}
}
