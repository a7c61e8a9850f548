package diagnose

import "plimsoll/internal/lab/measure"

// stopsForLeavers returns how to stop work for clients that have left, in the terms of the runtime.
func (e *Evidence) stopsForLeavers() []Action {
	a, known := runtimesLeave[e.Run.Manifest.Machine.TargetRuntime]
	if !known {
		a = Action{Text: "end what a request waits for when its client has left, look for that between " +
			"pieces of work, and give each wait a timeout that is shorter than the clients'"}
	}
	return []Action{a}
}

var runtimesLeave = map[string]Action{
	measure.RuntimeGo: {
		Text: "pass the request's context on to everything that it waits for, " +
			"and look at it between pieces of work",
		Command: "http.NewRequestWithContext(r.Context(), …); db.QueryContext(r.Context(), " +
			"…); if r.Context().Err() != nil { return }",
	},
	measure.RuntimeNode: {
		Text: "end what a request waits for when its client has left: an AbortSignal for each call, " +
			"and a look at it between pieces of work",
		Command: "const gone = new AbortController(); res.on('close', () => gone.abort()); " +
			"await fetch(URL, {signal: gone.signal})",
	},
	measure.RuntimeCPython: {
		Text: "look whether the client is still there before and between pieces of work, give each " +
			"wait a timeout that is shorter than the clients', and do not shield tasks from being " +
			"cancelled (asyncio.shield, create_task without a parent)",
		Command: "if await request.is_disconnected(): return   # Starlette, FastAPI; aiohttp: " +
			"handler_cancellation=True",
	},
	measure.RuntimeJVM: {
		Text: "give each wait a deadline that is shorter than the clients', and turn requests away " +
			"that have stood in the executor's queue for longer than that; an asynchronous request " +
			"hears of its client by AsyncListener.onError, a reactive one is cancelled",
		Command: "HttpRequest.newBuilder().timeout(…); statement.setQueryTimeout(…); " +
			"server.tomcat.accept-count",
	},
	measure.RuntimeRuby: {
		Text: "turn requests away that have waited for longer than clients do, and give each wait a " +
			"timeout",
		Command: "use Rack::Timeout, service_timeout: 5, wait_timeout: 2",
	},
	measure.RuntimePHPFPM: {
		Text:    "have a script end when its client has left, and give each a time",
		Command: "ignore_user_abort = Off; request_terminate_timeout = 5s",
	},
	measure.RuntimeDotNet: {
		Text: "pass HttpContext.RequestAborted on to everything that the request waits for",
		Command: "await client.GetAsync(url, context.RequestAborted); " +
			"await command.ExecuteReaderAsync(context.RequestAborted)",
	},
}
