package answer

import (
	"encoding/json"
	"net/http"
	"strconv"

	"layover/internal/router"
)

// healthCheck is the method of gRPC's health protocol that monitors call.
const healthCheck = "/grpc.health.v1.Health/Check"

// serving is the message of a HealthCheckResponse with the status SERVING, with
// the prefix that gRPC puts before each message: not compressed, two bytes.
var serving = []byte{0, 0, 0, 0, 2, 0x08, 0x01}

// ComposeState returns the answer to a request that does not wake its actor:
// what the actor is doing, as JSON, or for a gRPC call FAILED_PRECONDITION,
// which asks for no retry.
func ComposeState(actor string, state router.State, form Form) Answer {
	a := Answer{Status: http.StatusOK, Header: http.Header{}}
	a.Header.Set("Cache-Control", "no-store")
	if form == GRPC {
		a.Header.Set("Content-Type", "application/grpc")
		a.Header.Set("Grpc-Status", strconv.Itoa(grpcFailedPrecondition))
		a.Header.Set("Grpc-Message", grpcMessage(actor+" is "+string(state)+", and this route wakes nobody"))
		return a
	}
	a.Header.Set("Content-Type", "application/json")
	body, err := json.Marshal(struct {
		Actor string       `json:"actor"`
		State router.State `json:"state"`
	}{actor, state})
	if err != nil {
		panic("answer: two strings cannot be marshalled: " + err.Error())
	}
	a.Body = body
	return a
}

// WriteState answers req with ComposeState's answer. A gRPC health check is told
// that the actor serves: asleep is not unhealthy.
func WriteState(w http.ResponseWriter, req *http.Request, actor string, state router.State) {
	form := FormOf(req.Method, req.Header)
	if form == GRPC && req.URL.Path == healthCheck {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Type", "application/grpc")
		h.Set("Trailer", "Grpc-Status")
		w.Write(serving)
		h.Set("Grpc-Status", "0")
		return
	}
	ComposeState(actor, state, form).write(w, req)
}
