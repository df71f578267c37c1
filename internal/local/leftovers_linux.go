package local

import (
	"slices"
	"syscall"
)

// leftovers returns the living processes of records and those with one of the
// markers. A group is known by its main process: without that, its number may
// be another group's.
func leftovers(records []record, markers []string) []int {
	pids := markedProcesses(markers)
	for _, r := range records {
		if identity(r.PID) == r.Identity && !statOf(r.PID).dead() {
			pids = append(pids, groupOf(r.PID)...)
		}
	}
	slices.Sort(pids)
	return slices.Compact(pids)
}

func signalLeftover(pid int, s syscall.Signal, records []record, markers []string) {
	signalIf(pid, s, func() bool { return slices.Contains(leftovers(records, markers), pid) })
}
