package main

import "github.com/alecthomas/kong"

// longHelp are texts of flags that are too long for a line of code: a tag cannot be broken.
var longHelp = kong.Vars{
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
	"interval": "The interval over which figures are measured, 200ms to 30s (1s).",
}
