// Package ateapi is the wire format of agent-substrate's control plane, as far
// as a router needs it. Everything but this comment is generated from
// ateapi.proto; what is generated is in the tree, so that a build needs neither
// protoc nor its plugins.
package ateapi

//go:generate protoc -I. --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative ateapi.proto
