package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestThePatientOneHasAllAndTheOthersSayWhyNot(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatal(err)
	}
	_, patient, _ := strings.Cut(out.String(), "\n5s to spend:\n")
	if strings.Count(patient, "20 jobs on 5 pages, then done") < 2 {
		t.Errorf("the operation of 5s has not all jobs:\n%s", &out)
	}
	if short := strings.Replace(out.String(), patient, "", 1); !strings.Contains(short, "then deadline") && !strings.Contains(short, "then rate_limited") {
		t.Errorf("no other operation ran out of time:\n%s", &out)
	}
}
