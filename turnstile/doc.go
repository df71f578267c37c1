// Package turnstile bounds how many hold a resource at once, in an exact order of those who wait.
package turnstile
