package answer

import (
	"net/http"

	"layover/internal/router"
)

// Row is what one reason becomes on the wire.
type Row struct {
	Reason router.Reason
	Status int    // HTTP; 499 stands for a client that left, as in common access logs
	Code   uint32 // gRPC
	Title  string // the same for every request of this reason
	Retry  bool   // the same request may succeed later: the answer has a Retry-After
}

// gRPC status codes, by their numbers on the wire; the grpc module would be a
// large dependency for ten constants.
const (
	grpcCanceled           = 1
	grpcInvalidArgument    = 3
	grpcDeadlineExceeded   = 4
	grpcNotFound           = 5
	grpcPermissionDenied   = 7
	grpcFailedPrecondition = 9
	grpcInternal           = 13
	grpcUnavailable        = 14
	grpcUnauthenticated    = 16
)

// Table has one row for each reason. Whatever a retry can mend is Unavailable
// to gRPC callers, because that is the code their retry policies act on.
var Table = []Row{
	{router.BadRequest, http.StatusBadRequest, grpcInvalidArgument, "The request cannot be passed on", false},
	{router.BadHost, http.StatusBadRequest, grpcInvalidArgument, "The host cannot be read", false},
	{router.BadDeadline, http.StatusBadRequest, grpcInvalidArgument, "The deadline header cannot be read", false},
	{router.DeadlinePast, http.StatusGatewayTimeout, grpcDeadlineExceeded, "The deadline had passed on arrival", false},
	{router.NoRoute, http.StatusNotFound, grpcNotFound, "Nothing is configured for this address", false},
	{router.UnknownActor, http.StatusNotFound, grpcNotFound, "There is no such actor", false},
	{router.Forbidden, http.StatusForbidden, grpcPermissionDenied, "This is not allowed", false},
	{router.Unauthenticated, http.StatusUnauthorized, grpcUnauthenticated, "The caller is not known", false},
	{router.LotFull, http.StatusServiceUnavailable, grpcUnavailable, "There is no room to wait", true},
	{router.ActorBusy, http.StatusServiceUnavailable, grpcUnavailable, "The actor has too many requests", true},
	{router.NoWorker, http.StatusServiceUnavailable, grpcUnavailable, "No worker became free in time", true},
	{router.StillWaking, http.StatusServiceUnavailable, grpcUnavailable, "Still starting", true},
	{router.StartFailed, http.StatusBadGateway, grpcUnavailable, "The actor failed to start", false},
	{router.BackingOff, http.StatusServiceUnavailable, grpcUnavailable, "The actor failed to start lately", true},
	{router.WakeTimeout, http.StatusGatewayTimeout, grpcDeadlineExceeded, "Waking the actor took too long", false},
	{router.PlaneUnavailable, http.StatusServiceUnavailable, grpcUnavailable, "Actors cannot be woken right now", true},
	{router.PlaneFailed, http.StatusInternalServerError, grpcInternal, "The actor could not be woken", false},
	{router.ActorUnreachable, http.StatusBadGateway, grpcUnavailable, "The actor cannot be reached", false},
	{router.ActorFailed, http.StatusBadGateway, grpcUnavailable, "The actor broke off", false},
	{router.AttemptTimeout, http.StatusGatewayTimeout, grpcDeadlineExceeded, "The actor did not answer in time", false},
	{router.ClientGone, 499, grpcCanceled, "The client left", false},
	{router.Internal, http.StatusInternalServerError, grpcInternal, "A fault of the router", false},
}

// RowOf returns the row of reason; an unknown one has Internal's.
func RowOf(reason router.Reason) Row {
	row, ok := byReason[reason]
	if !ok {
		return byReason[router.Internal]
	}
	return row
}

var byReason = func() map[router.Reason]Row {
	rows := make(map[router.Reason]Row, len(Table))
	for _, row := range Table {
		rows[row.Reason] = row
	}
	return rows
}()
