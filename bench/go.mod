module layover/bench

go 1.26.0

require (
	golang.org/x/sync v0.25.0
	layover v0.0.0
)

require golang.org/x/sys v0.50.0 // indirect

replace layover => ../
