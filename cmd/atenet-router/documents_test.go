package main

import (
	"testing"

	"layover/internal/cli/clitest"
)

func TestTheDocumentsAndTheCommandLineAgree(t *testing.T) {
	clitest.Documented(t, root(), "../../docs/atenet-router.md")
	clitest.Exists(t, root(), "../../docs/*.md", "../../docs/decisions/*.md", "../../README.md", "../../CONTRIBUTING.md")
}
