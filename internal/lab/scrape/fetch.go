package scrape

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"plimsoll/internal/lab/format"
)

const (
	maxHeader = 64 << 10
	// maxWords is how much of other programs' text is shown.
	maxWords     = 200
	maxRedirects = 10
)

// errTooLarge is wrapped by the error for an answer that is longer than the limit.
var errTooLarge = errors.New("the rest is not read")

// refusal is the error for an answer with an unexpected status.
type refusal struct {
	shown  string
	status int
	// the explanation by net/http/pprof, or ours; empty for other servers, whose error pages are
	// long
	words string
}

func (r *refusal) Error() string {
	if r.words != "" {
		return fmt.Sprintf("%s answers with status %d: %s", r.shown, r.status, r.words)
	}
	return fmt.Sprintf("%s answers with status %d", r.shown, r.status)
}

// shown returns a URL without password, query and fragment, to show and to store.
func shown(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return "the address"
	}
	u.RawQuery, u.Fragment = "", ""
	return u.Redacted()
}

// stay follows redirects only to the same host: a service must not be able to make the lab send
// requests to other machines of its network. Other redirects are returned as the answer.
func stay(request *http.Request, via []*http.Request) error {
	switch {
	case !sameHost(request.URL, via[0].URL):
		return http.ErrUseLastResponse
	case len(via) >= maxRedirects:
		return fmt.Errorf("it leads on after %d redirects", maxRedirects)
	}
	return nil
}

func sameHost(a, b *url.URL) bool { return strings.EqualFold(a.Host, b.Host) }

// fetch reads an answer of at most limit bytes. Its errors name the URL in its shown form, and have
// the same text for the same cause.
func fetch(
	ctx context.Context, client *http.Client, url, shown string, limit int64,
) ([]byte, http.Header, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("%s is not a URL that can be fetched", shown)
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4,*/*;q=0.5")
	response, err := client.Do(request)
	if err != nil {
		return nil, nil, cause(ctx, shown, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, nil, refusalOf(response, shown)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, limit+1))
	switch {
	case err != nil:
		return nil, nil, cause(ctx, shown, err)
	case int64(len(body)) > limit:
		return nil, nil, fmt.Errorf("%s answers with more than %d MiB: %w",
			shown, limit>>20, errTooLarge)
	}
	return body, response.Header, nil
}

// refusalOf makes an error of an answer with an unexpected status.
func refusalOf(response *http.Response, shown string) *refusal {
	refused := &refusal{shown: shown, status: response.StatusCode}
	to, err := response.Location()
	switch {
	case err == nil && response.StatusCode/100 == 3 && !sameHost(to, response.Request.URL):
		refused.words = fmt.Sprintf("it leads to another host, %.*s, and is not followed there: "+
			"name the URL there, if that is meant", maxWords, oneLine(to.Host))
	case response.Header.Get("X-Go-Pprof") != "":
		// It does not matter if the explanation cannot be read.
		explanation, _ := io.ReadAll(io.LimitReader(response.Body, maxWords))
		refused.words = oneLine(string(explanation))
	}
	return refused
}

// cause returns an error without details that change every time, such as the number of a local
// port.
func cause(ctx context.Context, shown string, err error) error {
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	var network net.Error
	var op *net.OpError
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("%s was not waited for any longer", shown)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout():
		return fmt.Errorf("%s does not answer in time", shown)
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("the answer of %s is cut short", shown)
	case errors.As(err, &op):
		err = op.Err
	}
	// It may contain the line that was not an answer.
	return fmt.Errorf("%s: %.*s", shown, maxWords, oneLine(err.Error()))
}

// oneLine makes another program's text fit to be shown on one line.
func oneLine(text string) string { return format.Clean(strings.TrimSpace(text)) }
