package main

import (
	"strings"

	"github.com/alecthomas/kong"
)

// fillHelp puts longHelp into the help of flags and arguments. As kong.Vars, kong would search all of
// the texts for names again at each flag, with a regular expression: half of the time in which
// plimsoll load starts, and two thirds of that in which it prints --help.
func fillHelp(k *kong.Kong) error {
	return kong.Visit(k.Model, func(node kong.Visitable, next kong.Next) error {
		if v, ok := node.(*kong.Value); ok {
			v.Help = filled(v.Help)
		}
		return next(nil)
	})
}

// filled is a flag's help with the text of longHelp that its first name, such as ${seed}, stands for.
func filled(help string) string {
	named, begins := strings.CutPrefix(help, "${")
	name, rest, _ := strings.Cut(named, "}")
	if text, ok := longHelp[name]; begins && ok {
		return text + rest
	}
	return help
}

// longHelp are texts of flags that are too long for a line of code: a tag cannot be broken. What
// follows a text in the tag, such as the default, is not part of it.
var longHelp = map[string]string{
	"generator": "Send the load from another machine, over ssh. May be repeated: the machines " +
		"share the load.",
	"streams": "The number of concurrent requests on a connection, with --http2 or --http3, if " +
		"the target allows that many (10).",
	"inspect":       "Take profiles through the inspector of Node.js or another V8 runtime.",
	"profile_hertz": "The samples per second of --profile-command, if its output does not say so.",
	"deep": "Also have the kernel count events of the target, and the time that its threads " +
		"wait for a CPU. This costs the target a few percent of its capacity.",
	"token": "The token of the admin address, if it requires one. Prefer the environment " +
		"variable: other users of this machine can see flags.",
	"interval":   "The interval over which figures are measured, 200ms to 30s (1s).",
	"survey_slo": "The objectives, such as p99<50ms,errors<0.1%.",
	"survey_scenario": "Send the requests that this scenario file (YAML) describes. Its rate is " +
		"ignored.",
	"survey_pid": "The target's process, to measure its CPU and memory (found by the port if it " +
		"is on this machine).",
	"survey_pprof": "Take profiles from the net/http/pprof of a Go service, such as " +
		"http://127.0.0.1:6060.",
	"survey_profile_command": "Take profiles with this shell command: see the examples.",
	"survey_metrics": "Sample this page of Prometheus or expvar metrics once a second, such as " +
		"http://127.0.0.1:9090/metrics. May be given up to four times. If two pages " +
		"have a value of the same name, that of the first page is kept.",
	"survey_runs":        "The number of runs at each rate next to the load line",
	"survey_export":      "Write the load line to this file as a small JSON document, for other programs.",
	"survey_limit":       "The highest rate to offer after the warm-up (none).",
	"survey_overshoot":   "Never offer more than this multiple of the highest rate that passed",
	"survey_arrivals":    "How requests are spread in time: poisson or constant (poisson).",
	"survey_connections": "The maximum number of connections (as many as the rate needs).",
	"loops": "The number of event loops (one per CPU, or half as many if the target is on " +
		"this machine).",
	"timeout":       "Count a request as failed if it has no answer this long after it was due",
	"seed":          "The seed: the same number gives the same random choices",
	"replay_log":    "The log file, optionally compressed with gzip. - is standard input.",
	"replay_target": "Where to send the requests, such as http://127.0.0.1:8080.",
	"replay_speed":  "Send faster or slower than the log, such as 2x or 0.5x (1x).",
	"replay_rate": "Choose the speed that gives this mean rate, in requests per second. Bursts " +
		"keep their shape.",
	"replay_from":   "Begin here: 10m into the log, or 2026-11-20T08:00:00Z.",
	"replay_to":     "End before this time, in the same form as --from.",
	"replay_sample": "Send only every Nth request",
	"replay_format": "The format of the log: combined, common, json, har, or an nginx log_format " +
		"(detected from the first lines).",
	"replay_field": "The name of a field in the JSON lines, such as time=ts. May be repeated.",
	"replay_unsafe": "Send requests with any method, not only GET, HEAD and OPTIONS. The others may " +
		"change the target's data.",
	"replay_host":     "Send only the requests to this host. May be repeated.",
	"connections":     "The maximum number of connections",
	"replay_duration": "End after this time (at the end of the log).",
	"load_duration":   "How long to send load (30s, or the length of the rate's profile).",
	"load_rate": "Requests per second, sent whether or not answers arrive: 10000, 1000-5000, or " +
		"1000:30s,1000-5000:60s.",
	"load_burst": "Add RATE for TIME, beginning at START, such as 3200:8s@20s. May be repeated.",
	"load_arrivals": "How requests are spread in time: constant or poisson (what the scenario says, " +
		"or constant).",
	"load_closed": "Send the next request on a connection when the last one is answered, as wrk " +
		"does, even if the scenario has a rate.",
	"load_scenario": "Send the requests that this scenario file (YAML) describes.",
	"load_lifetime": "Replace each connection this long after it was opened.",
	"load_hdr":      "Write the response times of each window as an HdrHistogram log.",
	"load_out":      "Keep the raw results in this run directory, for report and compare.",
	"load_verify": "Run wrk (or h2load, with --http2) and plimsoll's closed loop in turn, and say " +
		"whether they agree.",
	"plan_rate":      "The peak rate of all instances together, in requests per second.",
	"plan_headroom":  "Keep this share of an instance's load line free",
	"plan_pod_start": "The time from requesting an instance until it serves",
	"plan_growth":    "The fastest growth of the load to plan for",
	"plan_zones":     "The number of zones to spread the instances over, of which one may be lost",
	"plan_database": "The number of connections that the database allows, to divide among the " +
		"instances.",
	"plan_idle": "Estimate the memory of an instance with N idle connections.",
	"plan_active": "Estimate the memory of an instance with M connections that have a request in " +
		"flight.",
	"plan_memory":     "Also use the memory data of this run of the same service. May be repeated.",
	"plan_deployment": "The name of the Deployment, for the manifest",
	"plan_on_headroom": "Write a KEDA ScaledObject to this YAML file. It scales on the headroom that " +
		"plimsoll gateways measure.",
}
