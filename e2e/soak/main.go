package main

import "layover/e2e/actor"

func main() { actor.Run() }
