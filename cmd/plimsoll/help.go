package main

import "github.com/alecthomas/kong"

// longHelp are texts of flags that are too long for a line of code: a tag cannot be broken.
var longHelp = kong.Vars{
	"generator": "Send the load from this machine, over ssh. May be repeated: the machines share " +
		"the load.",
	"streams": "The number of requests at once on a connection, with --http2 or --http3, if " +
		"the target allows it (10).",
	"inspect":       "Take profiles through the inspector of Node.js, or of another V8.",
	"profile_hertz": "Samples a second that this command takes, if its file does not say so.",
	"deep": "Have the kernel count the target's events too, and the time that its threads " +
		"wait for a processor. This costs the target some percent of its capacity.",
	"token": "The admin address's token, if it requires one. Other users of this machine can " +
		"see a flag, and not the environment.",
	"interval": "Show figures of this interval, 200ms to 30s (1s).",
}
