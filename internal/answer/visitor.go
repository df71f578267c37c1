package answer

import "layover/internal/router"

// visit is a refusal in the words of somebody who visits a site and knows
// nothing of actors, workers and budgets: the title and the text of its page.
// What programs are told, the table's title and the detail, is in small print.
type visit struct{ title, text string }

var visits = map[router.Reason]visit{
	router.BadRequest:       {"This request cannot be understood", "Check the address, and go to it again."},
	router.BadHost:          {"This address cannot be understood", "Check how it is spelled."},
	router.BadDeadline:      {"This request cannot be understood", "It says in a way that cannot be read how long it may take."},
	router.DeadlinePast:     {"This request came too late", "The time that it was given was over before it arrived."},
	router.NoRoute:          {"There is nothing at this address", "Check how it is spelled."},
	router.UnknownActor:     {"There is nothing at this address", "Check how it is spelled."},
	router.Forbidden:        {"This is not allowed", "Ask who runs this site to let you in."},
	router.Unauthenticated:  {"This site does not know you", "Ask who runs it to let you in."},
	router.LotFull:          {"This site is not ready yet", "So many wait for it and for others that there is no room for one more."},
	router.ActorBusy:        {"This site is busy", "It has as many requests as it can take."},
	router.NoWorker:         {"This site has not started yet", "Others were in use all the time, and there was no room for it beside them."},
	router.StillWaking:      {"This site is still starting", "That takes longer than this page could wait."},
	router.StartFailed:      {"This site failed to start", "Who runs it finds in its log why."},
	router.BackingOff:       {"This site failed to start", "It is started again after a pause."},
	router.WakeTimeout:      {"This site took too long to start", "It may be there when you try again."},
	router.PlaneUnavailable: {"This site cannot be started right now", "That should pass."},
	router.PlaneFailed:      {"This site could not be started", "Who runs it finds in the log why."},
	router.ActorUnreachable: {"This site cannot be reached", "It was started, and takes no connections."},
	router.ActorFailed:      {"This site broke off", "It ended the connection before it had answered."},
	router.AttemptTimeout:   {"This site did not answer in time", "It got the request, and may still be busy with it."},
	router.ClientGone:       {"This page was left", "Nobody waited for it any more."},
	router.Internal:         {"Something went wrong on the way to this site", "That is no fault of yours."},
}
