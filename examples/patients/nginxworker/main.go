// Command nginxworker is an nginx that compresses pages as they are asked for, and has one worker
// for that: one processor compresses, whatever the machine has.
//
// Cured, there is a worker for each processor.
package main

import (
	"bytes"
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"plimsoll/examples/patients/front"
	"plimsoll/examples/patients/work"
)

// things are on the page, which has about 60 KB then.
const things = 500

var page = template.Must(template.New("list").Parse(`<!doctype html><title>Chandlery</title><table>
{{range .}}<tr class="thing"><td><a href="/things/{{.SKU}}">{{.Title}}</a>
<td>{{printf "%.2f" .Price}}<td>{{.Seal}}
{{end}}</table>
`))

type thing struct {
	SKU, Title, Seal string
	Price            float64
}

func main() { front.Main(shop) }

func shop(cured bool) (*front.Site, error) {
	workers := "1"
	if cured {
		workers = "auto"
	}
	list, err := render()
	if err != nil {
		return nil, err
	}
	service := &http.Server{
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Write(list)
		}),
	}
	return &front.Site{
		Service: service,
		Config: func(listen, behind string) string {
			return fmt.Sprintf(config, workers, behind, listen)
		},
	}, nil
}

// render makes the page, which changes once a day.
func render() ([]byte, error) {
	seals := work.Do(40)
	all := make([]thing, things)
	for i := range all {
		all[i] = thing{
			SKU:   fmt.Sprintf("P%04d", i),
			Title: strings.TrimSpace(fmt.Sprint("Shackle & pin, ", 4+i%28, " mm")),
			Seal:  seals[i%32:] + seals[:i%32],
			Price: float64(99+37*i%9000) / 100,
		}
	}
	var list bytes.Buffer
	err := page.Execute(&list, all)
	return list.Bytes(), err
}

const config = `
worker_processes %s;
events { worker_connections 4096; }
http {
    access_log off;
    keepalive_requests 1000000;
    gzip on;
    gzip_proxied any;
    gzip_comp_level 6;
    gzip_min_length 1024;
    upstream shop { server %s; keepalive 128; }
    server {
        listen %s backlog=4096;
        location / {
            proxy_pass http://shop;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_buffers 16 16k;
        }
    }
}
`
