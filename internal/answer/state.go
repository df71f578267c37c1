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

// WriteState answers req, which does not wake its actor, with what the actor is
// doing: JSON, or for a gRPC call FAILED_PRECONDITION, which asks for no retry.
// A gRPC health check is told that the actor serves: asleep is not unhealthy.
func WriteState(w http.ResponseWriter, req *http.Request, actor string, state router.State) {
	w.Header().Set("Cache-Control", "no-store")
	if FormOf(req.Method, req.Header) == GRPC {
		writeGRPCState(w, req, actor, state)
		return
	}
	body, err := json.Marshal(struct {
		Actor string       `json:"actor"`
		State router.State `json:"state"`
	}{actor, state})
	if err != nil {
		panic("answer: two strings cannot be marshalled: " + err.Error())
	}
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if req.Method != http.MethodHead {
		w.Write(body) // an error means that the client has left: nobody to tell
	}
}

func writeGRPCState(w http.ResponseWriter, req *http.Request, actor string, state router.State) {
	h := w.Header()
	h.Set("Content-Type", "application/grpc")
	if req.URL.Path == healthCheck {
		h.Set("Trailer", "Grpc-Status")
		w.Write(serving)
		h.Set("Grpc-Status", "0")
		return
	}
	h["Content-Length"] = nil // present, so that net/http adds none
	h.Set("Grpc-Status", strconv.Itoa(grpcFailedPrecondition))
	h.Set("Grpc-Message", grpcMessage(actor+" is "+string(state)+", and this route wakes nobody"))
	w.WriteHeader(http.StatusOK)
}
