package plan_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/google/jsonschema-go/jsonschema"

	"plimsoll/internal/lab/plan"
)

// kubernetes returns Kubernetes' own schema of one kind of object, made strict: an unknown field is
// an error.
func kubernetes(t *testing.T, kind string) *jsonschema.Resolved {
	t.Helper()
	text, err := os.ReadFile("testdata/kubernetes-1.37.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	s := new(jsonschema.Schema)
	if err := json.Unmarshal(text, s); err != nil {
		t.Fatal(err)
	}
	if s.Defs[kind] == nil {
		t.Fatalf("the schema has no %s", kind)
	}
	s.Ref = "#/$defs/" + kind
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

const (
	scaler    = "HorizontalPodAutoscaler"
	resources = "io.k8s.api.core.v1.ResourceRequirements"
	selector  = "io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector"
)

// parsed parses YAML as JSON is parsed.
func parsed(t *testing.T, text string) map[string]any {
	t.Helper()
	asJSON, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	var v map[string]any
	if err := json.Unmarshal(asJSON, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// at follows keys, and indices in lists.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch key := p.(type) {
		case string:
			v = v.(map[string]any)[key]
		case int:
			v = v.([]any)[key]
		}
		if v == nil {
			t.Fatalf("there is no %v", path)
		}
	}
	return v
}

// commented is the Deployment's part, which stands in comments.
func commented(text string) string {
	var b strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		line, is := strings.CutPrefix(line, "# ")
		inside = is && (inside || strings.HasPrefix(line, "spec:"))
		if inside {
			b.WriteString(line)
		}
	}
	return b.String()
}

func manifests(t *testing.T) map[string]*plan.DeploymentPlan {
	busy := surveyed(step(1, 200, 64, holding(200, 50)), holder(2, 100, 5, 0),
		holder(3, 1000, 5, 0), holder(4, 2000, 5, 0))
	hostile := usual()
	hostile.Manifest.Target = "http://x/\nkind: Secret\r---\u2028a\x1b[2J"
	hostile.Manifest.SLO = "p99<50ms\u0085spec: {}"
	all := map[string]*plan.DeploymentPlan{
		"the usual": planned(t, usual(), plan.Options{
			Rate:     40000,
			Headroom: .2,
			Zones:    3,
			PodStart: 40 * time.Second,
			Growth:   .05,
		}),
		"small": planned(t, usual(), plan.Options{Rate: 1}),
		"slow starts": planned(t, usual(), plan.Options{
			Rate:       40000,
			Headroom:   .5,
			PodStart:   time.Hour,
			Growth:     1,
			Deployment: "shop",
		}),
		"wild growth": planned(t, usual(), plan.Options{
			Rate:     400,
			Headroom: .9,
			PodStart: time.Hour,
			Growth:   100,
		}),
		"memory too": planned(t, busy, plan.Options{Rate: 40000, Headroom: .2, Idle: 5000}),
		"hostile":    planned(t, hostile, plan.Options{Rate: 40000, Headroom: .2}),
	}
	return all
}

func TestTheManifestKeepsKubernetesSchema(t *testing.T) {
	schema, required := kubernetes(t, scaler), kubernetes(t, resources)
	for name, p := range manifests(t) {
		text := string(p.Manifest())
		object := parsed(t, text)
		if err := schema.Validate(object); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		snippet := parsed(t, commented(text))
		want := at(t, snippet, "spec", "template", "spec", "containers", 0, "resources")
		if err := required.Validate(want); err != nil {
			t.Errorf("%s: %v\n%s", name, err, commented(text))
		}
		if cpu, ok := at(t, want, "requests", "cpu").(string); !ok ||
			!strings.HasSuffix(cpu, "m") || cpu == "0m" {
			t.Errorf("%s: a percentage of a request of %v", name, cpu)
		}
	}
}

// Checks by the API server that the schema cannot express: the ranges in the fields' documentation.
func TestTheManifestsFiguresAreInKubernetesRanges(t *testing.T) {
	for name, p := range manifests(t) {
		object := parsed(t, string(p.Manifest()))
		if object["apiVersion"] != "autoscaling/v2" ||
			object["kind"] != "HorizontalPodAutoscaler" || len(object) != 4 {
			t.Errorf("%s: %v", name, object)
		}
		low := at(t, object, "spec", "minReplicas").(float64)
		high := at(t, object, "spec", "maxReplicas").(float64)
		if low < 1 || high < low {
			t.Errorf("%s: %v to %v replicas", name, low, high)
		}
		if at(t, object, "metadata", "name") != p.Options.Deployment ||
			at(t, object, "spec", "scaleTargetRef", "name") != p.Options.Deployment {
			t.Errorf("%s: %v", name, object)
		}
		target := at(t, object, "spec", "metrics", 0, "resource", "target")
		if v := at(t, target, "averageUtilization").(float64); v < 1 || v > 100 ||
			at(t, target, "type") != "Utilization" {
			t.Errorf("%s: %v", name, target)
		}
		for _, direction := range []string{"scaleUp", "scaleDown"} {
			rules := at(t, object, "spec", "behavior", direction)
			if v := at(t, rules, "stabilizationWindowSeconds").(float64); v < 0 || v > 3600 {
				t.Errorf("%s: a window of %v s", name, v)
			}
			policies := at(t, rules, "policies").([]any)
			for _, policy := range policies {
				value := at(t, policy, "value").(float64)
				period := at(t, policy, "periodSeconds").(float64)
				kind := at(t, policy, "type")
				if value < 1 || period < 1 || period > 1800 || kind != "Pods" && kind != "Percent" {
					t.Errorf("%s: %v", name, policy)
				}
			}
			if len(policies) != 2 {
				t.Errorf("%s: %v", name, policies)
			}
		}
	}
}

func TestTheSchemaWouldFindWhatIsWrong(t *testing.T) {
	schema := kubernetes(t, scaler)
	good := string(planned(t, usual(), plan.Options{Rate: 400}).Manifest())
	for _, change := range [][2]string{
		{"minReplicas:", "minReplica:"}, {"averageUtilization: ", "averageUtilization: a"}, {"autoscaling/v2", "autoscaling/v2beta2"},
		{"stabilizationWindowSeconds", "stabilisationWindowSeconds"}, {"maxReplicas: ", "maximum: "},
	} {
		bad := strings.Replace(good, change[0], change[1], 1)
		if bad == good {
			t.Fatalf("%s is not there", change[0])
		}
		if schema.Validate(parsed(t, bad)) == nil {
			t.Errorf("%s instead of %s passes", change[1], change[0])
		}
	}
}

func TestTheDeploymentIsSpreadOverItsZones(t *testing.T) {
	p := planned(t, usual(), plan.Options{Rate: 40000, Headroom: .2, Zones: 3, Deployment: "shop"})
	text := string(p.Manifest())
	constraint := at(t, parsed(t, commented(text)), "spec", "template", "spec",
		"topologySpreadConstraints", 0)
	for key, want := range map[string]any{
		"topologyKey":       "topology.kubernetes.io/zone",
		"maxSkew":           1.,
		"whenUnsatisfiable": "DoNotSchedule",
		"nodeTaintsPolicy":  "Honor",
	} {
		if got := at(t, constraint, key); got != want {
			t.Errorf("%s is %v, want %v", key, got, want)
		}
	}
	chosen := at(t, constraint, "labelSelector")
	if err := kubernetes(t, selector).Validate(chosen); err != nil ||
		at(t, chosen, "matchLabels", "app") != "shop" {
		t.Errorf("%v: %v", chosen, err)
	}
	if !strings.Contains(text, "planned for 3 over which") ||
		!strings.Contains(text, "# Of fewer a loss would take so large a share") {
		t.Error(text)
	}
	if one := string(planned(t, usual(), plan.Options{
		Rate:     5,
		Headroom: .2,
	}).Manifest()); strings.Contains(one, "topology") || strings.Contains(one, "Of fewer") {
		t.Error(one)
	}
}

func TestARunFromElsewhereCannotWriteIntoTheManifest(t *testing.T) {
	text := string(manifests(t)["hostile"].Manifest())
	for line := range strings.Lines(text) {
		if strings.Contains(line, "Secret") && !strings.HasPrefix(line, "#") {
			t.Errorf("%q", line)
		}
	}
	if strings.ContainsAny(text, "\r\x1b\u0085\u2028") || strings.Count(text, "\nspec:") != 1 {
		t.Errorf("%q", text)
	}
}

func TestThePlansFiguresSayWhereTheyComeFrom(t *testing.T) {
	p := planned(
		t,
		surveyed(step(1, 200, 64, holding(200, 50)), holder(2, 100, 5, 0), holder(3, 1000, 5, 0),
			holder(4, 2000, 5, 0)),
		plan.Options{Rate: 40000, Headroom: .2, Idle: 5000, DatabaseConnections: 900},
	)
	if p.Autoscaler == nil || p.Database == nil || p.Memory == nil {
		t.Fatalf("%+v", p)
	}
	for _, f := range []plan.Figure{
		p.Instances.Safe, p.Instances.Each, p.CPU.Idle, p.CPU.PerRequest, p.CPU.AtSafe,
		p.CPU.AtLine, p.Autoscaler.TargetRate,
		p.Autoscaler.RequestCPU, p.Autoscaler.RequestMemory, p.Autoscaler.Lag,
		p.Database.PerInstance, *p.Database.Needed, p.Memory.Total, p.Memory.Base,
		p.Memory.PerConnection,
	} {
		if f.How == "" || f.Unit == "" {
			t.Errorf("%+v does not say where it comes from", f)
		}
	}
	text, err := json.Marshal(p)
	if err != nil || len(text) > 32<<10 {
		t.Errorf("%d bytes, %v", len(text), err)
	}
	var back plan.DeploymentPlan
	if err := json.Unmarshal(text, &back); err != nil ||
		back.Autoscaler.TargetCPU != p.Autoscaler.TargetCPU {
		t.Error(err)
	}
}

// There is no schema for KEDA's objects here, but there is one for what KEDA passes to the
// autoscaler.
func TestTheHeadroomsManifestHasThePlansFigures(t *testing.T) {
	schema := kubernetes(t, scaler)
	for name, p := range manifests(t) {
		text := string(p.HeadroomManifest())
		object := parsed(t, text)
		if object["apiVersion"] != "keda.sh/v1alpha1" || object["kind"] != "ScaledObject" ||
			len(object) != 4 {
			t.Errorf("%s: %v", name, object)
		}
		low := at(t, object, "spec", "minReplicaCount").(float64)
		high := at(t, object, "spec", "maxReplicaCount").(float64)
		if int(low) != p.Autoscaler.MinReplicas || int(high) != p.Autoscaler.MaxReplicas {
			t.Errorf("%s: %v to %v replicas", name, low, high)
		}
		own := at(t, parsed(t, string(p.Manifest())), "spec", "behavior")
		behavior := at(t, object, "spec", "advanced", "horizontalPodAutoscalerConfig", "behavior")
		if fmt.Sprint(behavior) != fmt.Sprint(own) {
			t.Errorf("%s: %v, and the other manifest has %v", name, behavior, own)
		}
		whole := parsed(t, string(p.Manifest()))
		at(t, whole, "spec").(map[string]any)["behavior"] = behavior
		if err := schema.Validate(whole); err != nil {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
		trigger := at(t, object, "spec", "triggers", 0, "metadata")
		threshold, err := strconv.ParseFloat(at(t, trigger, "threshold").(string), 64)
		if most := p.Autoscaler.TargetRate.Value/p.Line.Estimate + .01; err != nil ||
			threshold <= 0 || threshold > most {
			t.Errorf("%s: a threshold of %v, %v; the plan aims at %.3f", name, threshold, err, most)
		}
		query := at(t, trigger, "query").(string)
		if want := `{upstream="` + p.Options.Deployment + `"}`; !strings.Contains(query, want) {
			t.Errorf("%s: %s", name, query)
		}
	}
}
