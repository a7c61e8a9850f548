package admin

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"plimsoll/internal/config"
	"plimsoll/internal/gateway"
)

// reply sends a value as JSON that people can read too.
func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	e.Encode(v) // an error means that the client is gone
}

type failure struct {
	Error  string        `json:"error"`
	Errors []configError `json:"errors,omitempty"`
}

func fail(w http.ResponseWriter, status int, problem string) {
	reply(w, status, failure{Error: problem})
}

// quoted is a text from outside, bounded, for a message.
func quoted(s string) string {
	const longest = 100
	return strconv.Quote(s[:min(len(s), longest)])
}

type state struct {
	State  gateway.State `json:"state"`
	Lacks  string        `json:"error,omitempty"`
	Config string        `json:"config_version,omitempty"`
}

// alive answers as long as the process runs.
func (a *api) alive(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, state{State: a.gateway.State()})
}

// ready answers 200 only while the gateway takes requests.
func (a *api) ready(w http.ResponseWriter, _ *http.Request) {
	if err := a.gateway.Ready(); err != nil {
		reply(w, http.StatusServiceUnavailable, state{State: a.gateway.State(), Lacks: err.Error()})
		return
	}
	reply(w, http.StatusOK, state{State: a.gateway.State()})
}

func (a *api) routes(w http.ResponseWriter, r *http.Request) {
	list := a.gateway.Routes()
	if withHistogram(r) {
		replyShort(w, map[string]any{"routes": list})
		return
	}
	for i := range list {
		list[i].Cells = nil
	}
	reply(w, http.StatusOK, map[string]any{"routes": list})
}

func (a *api) upstreams(w http.ResponseWriter, r *http.Request) {
	list := a.gateway.Upstreams()
	if withHistogram(r) {
		replyShort(w, map[string]any{"upstreams": list})
		return
	}
	for i := range list {
		list[i].Cells = nil
	}
	reply(w, http.StatusOK, map[string]any{"upstreams": list})
}

func (a *api) upstream(w http.ResponseWriter, r *http.Request) {
	s, err := a.gateway.Upstream(r.PathValue("name"))
	if !withHistogram(r) {
		s.Cells = nil
	}
	answer(w, s, err)
}

// withHistogram says whether the caller wants whole histograms, which a person does not.
func withHistogram(r *http.Request) bool { return r.URL.Query().Get("histogram") == "1" }

// replyShort sends a value as JSON for programs: indented, histograms would be three times as long.
func replyShort(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.Encode(v) // an error means that the client is gone
}

// operate takes a target out, or puts it back.
func (a *api) operate(
	act func(upstream, address string) (gateway.TargetStatus, error),
) http.HandlerFunc {
	return a.look(func(w http.ResponseWriter, r *http.Request) {
		s, err := act(r.PathValue("name"), r.PathValue("address"))
		answer(w, s, err)
	})
}

// forceBreaker opens or closes a target's circuit breaker, or leaves it to itself again.
func (a *api) forceBreaker(w http.ResponseWriter, r *http.Request) {
	s, err := a.gateway.ForceBreaker(r.PathValue("name"), r.PathValue("address"), r.URL.Query().Get("state"))
	answerOrder(w, s, err)
}

// setLimit changes a rate limit, or the override of one value, until its configuration changes.
func (a *api) setLimit(w http.ResponseWriter, r *http.Request) {
	q, burst := r.URL.Query(), int64(0)
	if text := q.Get("burst"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 {
			fail(w, http.StatusBadRequest, "burst="+quoted(text)+" is not a number of requests, 1 or more")
			return
		}
		burst = n
	}
	route, name, rate := r.PathValue("route"), r.PathValue("limit"), q.Get("rate")
	said := map[string]string{"rate": rate}
	if !q.Has("value") {
		answerOrder(w, said, a.gateway.SetLimit(route, name, rate, burst))
		return
	}
	said["value"] = q.Get("value")
	answerOrder(w, said, a.gateway.SetLimitOf(said["value"], route, name, rate, burst))
}

func (a *api) changeGuard(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	if len(q["add"])+len(q["remove"]) == 0 {
		fail(w, http.StatusBadRequest, "say which keys: add=KEY or remove=KEY, each as often as needed")
		return
	}
	err := a.gateway.ChangeGuard(r.PathValue("route"), q["add"], q["remove"])
	answerOrder(w, map[string]int{"added": len(q["add"]), "removed": len(q["remove"])}, err)
}

func (a *api) purgeCache(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	p := gateway.Purge{URL: q.Get("url"), Prefix: q.Get("prefix"), Tag: q.Get("tag")}
	for _, flag := range []struct {
		name string
		to   *bool
	}{{"all", &p.All}, {"soft", &p.Soft}} {
		switch text := q.Get(flag.name); text {
		case "", "false":
		case "true":
			*flag.to = true
		default:
			fail(w, http.StatusBadRequest, flag.name+"="+quoted(text)+" is neither true nor false")
			return
		}
	}
	done, err := a.gateway.PurgeCache(p)
	answerOrder(w, done, err)
}

// answerOrder is answer for what an operator may have written wrongly.
func answerOrder(w http.ResponseWriter, v any, err error) {
	if err != nil && !errors.Is(err, gateway.ErrUnknown) {
		fail(w, http.StatusBadRequest, err.Error())
		return
	}
	answer(w, v, err)
}

func answer(w http.ResponseWriter, v any, err error) {
	switch {
	case errors.Is(err, gateway.ErrUnknown):
		fail(w, http.StatusNotFound, err.Error())
	case err != nil:
		fail(w, http.StatusInternalServerError, err.Error())
	default:
		reply(w, http.StatusOK, v)
	}
}

func (a *api) connections(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, a.gateway.Connections())
}

// How long the loops are looked at: long enough for a share of time to mean something, and no
// longer than somebody waits.
const (
	loopsOver    = 500 * time.Millisecond
	loopsLongest = 30 * time.Second
)

func (a *api) loops(w http.ResponseWriter, r *http.Request) {
	over := loopsOver
	if text := r.URL.Query().Get("over"); text != "" {
		var err error
		if over, err = time.ParseDuration(text); err != nil || over <= 0 || over > loopsLongest {
			fail(w, http.StatusBadRequest, fmt.Sprintf("over=%s: give a duration such as 2s, "+
				"above 0s and at most %s", quoted(text), loopsLongest))
			return
		}
	}
	// an error is a client that is gone
	if s, err := a.gateway.Loops(r.Context(), over); err == nil {
		reply(w, http.StatusOK, s)
	}
}

func (a *api) loadLine(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, a.gateway.LoadLine())
}

func (a *api) config(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, a.gateway.Config())
}

func (a *api) configYAML(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/yaml")
	w.Write([]byte(a.gateway.Config().YAML))
}

// configError is one of the things that are wrong with a configuration.
type configError struct {
	At      string `json:"at"` // file:line:column
	Key     string `json:"key,omitempty"`
	Problem string `json:"problem"`
}

// reload answers when the new configuration is in force, or was refused.
func (a *api) reload(w http.ResponseWriter, _ *http.Request) {
	err := a.gateway.Reload()
	if err == nil {
		reply(w, http.StatusOK, state{State: a.gateway.State(), Config: a.gateway.Config().Version})
		return
	}
	if a.gateway.State() != gateway.Serving {
		fail(w, http.StatusConflict, err.Error())
		return
	}
	if errors.Is(err, gateway.ErrIncomplete) {
		fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	f := failure{Error: "the new configuration was refused; the old one goes on"}
	var wrong config.Errors
	if !errors.As(err, &wrong) {
		f.Error += ": " + err.Error()
	}
	for _, e := range wrong {
		at := e.File
		if e.Line > 0 {
			at = fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Column)
		}
		f.Errors = append(f.Errors, configError{At: at, Key: e.Path, Problem: e.Problem})
	}
	reply(w, http.StatusUnprocessableEntity, f)
}

// drain begins the gateway's end and does not wait for it.
func (a *api) drain(w http.ResponseWriter, _ *http.Request) {
	a.gateway.Drain()
	reply(w, http.StatusAccepted, state{State: gateway.Draining})
}
