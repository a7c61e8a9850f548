package report

import "testing"

func TestWhatIsBoundedMayHaveFieldsOfItsOwn(t *testing.T) {
	type finding struct {
		Claim string
		own   *int
	}
	n, left := 3, 10
	if short := bounded([]finding{{"a claim that is too long", &n}}, &left); len(short) != 1 ||
		len(short[0].Claim) > 13 || short[0].own != nil {
		t.Errorf("%+v", short)
	}
}
