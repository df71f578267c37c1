package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// deployment is the part of deploy/atenet-router.yaml that has to agree with
// the program.
type deployment struct {
	Kind string
	Spec struct {
		Template struct {
			Spec struct {
				TerminationGracePeriodSeconds int         `yaml:"terminationGracePeriodSeconds"`
				InitContainers                []container `yaml:"initContainers"`
				Containers                    []container
			}
		}
	}
}

type container struct {
	Name  string
	Args  []string
	Ports []struct {
		Name          string
		ContainerPort string `yaml:"containerPort"`
	}
	Env       []struct{ Name, Value string }
	Resources struct{ Limits struct{ Memory string } }
}

func readDeployment(t *testing.T) (d deployment) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/atenet-router.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for docs := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var doc deployment
		if err := docs.Decode(&doc); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if doc.Kind == "Deployment" {
			return doc
		}
	}
	t.Fatal("there is no Deployment")
	return d
}

func (d deployment) container(t *testing.T, name string) container {
	t.Helper()
	spec := d.Spec.Template.Spec
	for _, c := range append(spec.InitContainers, spec.Containers...) {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no container %s", name)
	return container{}
}

func TestTheDeploymentsFlagsAreAccepted(t *testing.T) {
	d := readDeployment(t)
	c, _ := parse(t, d.container(t, "atenet-router").Args...)
	plan, doubts, err := c.check()
	if err != nil || len(doubts) > 0 {
		t.Errorf("the router says %v, %q", err, doubts)
	}
	boot := d.container(t, "bootstrap").Args
	if boot[0] != "bootstrap" {
		t.Fatalf("the init container runs %q", boot[0])
	}
	b := new(config)
	flags := pflag.NewFlagSet("bootstrap", pflag.ContinueOnError)
	b.planFlags(flags)
	output := flags.String("output", "", "")
	if err := flags.Parse(boot[1:]); err != nil {
		t.Fatal(err)
	}
	if got, _, err := b.checkPlan(); err != nil || !reflect.DeepEqual(got, plan) {
		t.Errorf("bootstrap's plan is\n%+v, the router's\n%+v, %v", got, plan, err)
	}
	if envoy := d.container(t, "envoy").Args; !slices.Contains(envoy, *output) {
		t.Errorf("Envoy is started with %q, bootstrap writes %s", envoy, *output)
	}
}

func TestTheDeploymentsPortsAreThoseOfTheFlags(t *testing.T) {
	d := readDeployment(t)
	c, _ := parse(t, d.container(t, "atenet-router").Args...)
	for _, want := range []struct{ container, port, addr string }{
		{"atenet-router", "status", c.status}, {"atenet-router", "metrics", c.metrics}, {"envoy", "http", c.http},
	} {
		found := false
		for _, p := range d.container(t, want.container).Ports {
			found = found || p.Name == want.port && strings.HasSuffix(want.addr, ":"+p.ContainerPort)
		}
		if !found {
			t.Errorf("%s has no port %s of %s", want.container, want.port, want.addr)
		}
	}
}

func TestTheDeploymentGivesAStopItsTime(t *testing.T) {
	d := readDeployment(t)
	c, _ := parse(t, d.container(t, "atenet-router").Args...)
	grace := time.Duration(d.Spec.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	if need := c.drainDelay + c.plan().Drain() + 5*time.Second; grace < need {
		t.Errorf("the pod has %v to end, and needs %v", grace, need)
	}
}

func TestTheDeploymentCollectsBeforeItsLimit(t *testing.T) {
	c := readDeployment(t).container(t, "atenet-router")
	limit, ok := strings.CutSuffix(c.Resources.Limits.Memory, "Mi")
	if !ok {
		t.Fatalf("the limit is %q", c.Resources.Limits.Memory)
	}
	i := slices.IndexFunc(c.Env, func(e struct{ Name, Value string }) bool { return e.Name == "GOMEMLIMIT" })
	if i < 0 {
		t.Fatal("no GOMEMLIMIT")
	}
	soft, ok := strings.CutSuffix(c.Env[i].Value, "MiB")
	hard, _ := strconv.Atoi(limit)
	if n, err := strconv.Atoi(soft); !ok || err != nil || n*10 > hard*9 || n*10 < hard*8 {
		t.Errorf("GOMEMLIMIT %s of a limit of %sMi: want 80 to 90 %%", c.Env[i].Value, limit)
	}
}
