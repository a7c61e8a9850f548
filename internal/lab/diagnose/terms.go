package diagnose

import "plimsoll/internal/lab/measure"

// ownTerms is how to do a class of work with less processor time in each runtime's own terms, by the
// rule about it. A rule's own advice holds in every language and comes first.
var ownTerms = map[string]map[string]Action{
	"json-hot": {
		measure.RuntimeGo: {
			Text: "stream with json.Encoder into a pooled buffer, and decode into structs, not " +
				"into map[string]any",
		},
		measure.RuntimeNode: {
			Text: "JSON.parse and JSON.stringify hold up the event loop for all requests: parse " +
				"once and keep the object, pass bytes on as they are, and stringify what has a " +
				"fixed form by its schema (fast-json-stringify)",
		},
		measure.RuntimeCPython: {
			Text: "use an encoder that is compiled (orjson, msgspec) in place of json, and no " +
				"indent, sort_keys or default= that leave its fast path",
		},
		measure.RuntimeJVM: {
			Text: "keep one ObjectMapper (or Gson) for all requests, with an ObjectReader or " +
				"ObjectWriter for each type, and no tree (JsonNode) of what is only passed on",
		},
		measure.RuntimeRuby: {
			Text: "use Oj or the json gem's own generator in place of to_json on each object, and " +
				"no JSON.pretty_generate",
		},
		measure.RuntimePHPFPM: {
			Text: "keep the encoded text in APCu or Redis, and no JSON_PRETTY_PRINT",
		},
		measure.RuntimeDotNet: {
			Text: "keep one JsonSerializerOptions for all requests, and use System.Text.Json's " +
				"source generator",
		},
	},
	"logging-hot": {
		measure.RuntimeGo: {
			Text: "no source position (AddSource), and no attributes that are made when nobody " +
				"reads them (slog.Logger.Enabled)",
		},
		measure.RuntimeNode: {
			Text: "log with pino and a transport in a thread of its own, in place of console.log, " +
				"which writes at once, and util.inspect",
		},
		measure.RuntimeCPython: {
			Text: "pass arguments and no formatted text (log.debug(\"%s\", x)), ask isEnabledFor " +
				"before anything expensive, and write in a thread of its own (QueueHandler)",
		},
		measure.RuntimeJVM: {
			Text: "log through an asynchronous appender, without the caller's place (%C, %M, %L, " +
				"%F), with arguments ({}) in place of text that is put together",
		},
		measure.RuntimeRuby: {
			Text: "raise the level to info (in Rails config.log_level), and log one line for each " +
				"request (lograge)",
		},
		measure.RuntimeDotNet: {
			Text: "use LoggerMessage's source generator, and no console logger, which locks",
		},
	},
	"handshakes-dominate": {
		measure.RuntimeGo: {
			Text: "do not set SessionTicketsDisabled, and share ticket keys between instances " +
				"(tls.Config.SetSessionTicketKeys)",
		},
		measure.RuntimeNode: {
			Text: "give all workers and instances the same ticketKeys (tls.createServer), and do " +
				"not set SSL_OP_NO_TICKET; one secure context for all connections",
		},
		measure.RuntimeCPython: {
			Text: "keep one SSLContext for all connections, without OP_NO_TICKET; or have nginx " +
				"end TLS in front",
		},
		measure.RuntimeJVM: {
			Text: "leave session tickets on (jdk.tls.server.enableSessionTicketExtension), and " +
				"the cache large and long (javax.net.ssl.sessionCacheSize, setSessionTimeout)",
		},
		measure.RuntimeC: {
			Text: "in nginx ssl_session_cache shared:tls:10m, and ssl_session_tickets on with " +
				"ssl_session_ticket_key; in Apache SSLSessionCache shmcb:",
		},
	},
}
