// Command gin lists goods as JSON with Gin: one of the three of frameworks.yaml. It has no log and
// no recovery, as the others have none.
package main

import (
	"encoding/json"
	"log"
	"net/http"

	"github.com/gin-gonic/gin"

	"plimsoll/examples/experiments/servers/catalog"
)

func main() {
	listen, metrics := catalog.Addresses()
	catalog.Metrics(metrics)
	gin.SetMode(gin.ReleaseMode)
	router := gin.New()
	router.GET("/items", func(c *gin.Context) {
		// The standard encoder, as in the other two: the servers are compared, and not the
		// encoders.
		body, err := json.Marshal(catalog.Items(catalog.Shown))
		if err != nil {
			c.AbortWithStatus(http.StatusInternalServerError)
			return
		}
		c.Data(http.StatusOK, "application/json; charset=utf-8", body)
	})
	log.Fatal(router.Run(listen))
}
