// Command fasthttp lists goods as JSON with fasthttp: one of the three of frameworks.yaml.
package main

import (
	"encoding/json"
	"log"

	"github.com/valyala/fasthttp"

	"plimsoll/examples/experiments/servers/catalog"
)

func main() {
	listen, metrics := catalog.Addresses()
	catalog.Metrics(metrics)
	log.Fatal(fasthttp.ListenAndServe(listen, func(c *fasthttp.RequestCtx) {
		if string(c.Path()) != "/items" || !c.IsGet() {
			c.SetStatusCode(fasthttp.StatusNotFound)
			return
		}
		body, err := json.Marshal(catalog.Items(catalog.Shown))
		if err != nil {
			c.SetStatusCode(fasthttp.StatusInternalServerError)
			return
		}
		c.SetContentType("application/json; charset=utf-8")
		c.SetBody(body)
	}))
}
