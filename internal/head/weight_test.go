package head

import "testing"

func TestWeightsAreThousandthsAndWhatIsMalformedIsNotAWeight(t *testing.T) {
	for text, want := range map[string]int{
		"": 1000, " ": 1000, "q=1": 1000, "q=0": 0, "Q=0.5": 500, " q=0.001 ": 1, "q=0.": 0,
		"q=1.000": 1000, "q=0.999": 999,
		"q=1.001": -1, "q=2": -1, "q=0.0001": -1, "q=": -1, "q": -1, "q=-1": -1, "q=0.x": -1,
		"level=3": -1, "q =1": -1,
	} {
		got, ok := Weight([]byte(text))
		if !ok {
			got = -1
		}
		if got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
}
