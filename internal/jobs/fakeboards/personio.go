package fakeboards

import (
	"encoding/xml"
	"net/http"
	"strings"
	"time"

	"layover/internal/jobs/posting"
)

// personio gives each company a host and sends XML in which descriptions end
// elements that they did not begin. Companies whose slug begins with "com:" live
// under its other domain. A company that is not there has a page for people.
func personio(s *Server) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		slug, domain, _ := strings.Cut(hostOnly(r.Host), ".")
		if strings.HasSuffix(domain, ".com") {
			slug = "com:" + slug
		}
		c, ok := s.Company("personio", slug)
		if !ok || r.URL.Path != "/xml" || r.Method != http.MethodGet {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.WriteHeader(http.StatusNotFound)
			w.Write([]byte("<!DOCTYPE html><html><body>Page not found</body></html>")) // to memory
			return
		}
		var b strings.Builder
		b.WriteString(`<?xml version="1.0" encoding="UTF-8"?>` + "\n<workzag-jobs>")
		for range c.Odd {
			b.WriteString("<position><office>Nowhere</office><jobDescriptions><jobDescription><name>Not a title</name></jobDescription></jobDescriptions></position>")
		}
		for _, j := range c.Jobs {
			personioRow(&b, c, j)
		}
		b.WriteString("</workzag-jobs>\n")
		w.Header().Set("Content-Type", "text/xml; charset=utf-8")
		w.Write([]byte(b.String())) // to memory
	}
}

func personioRow(b *strings.Builder, c Company, j Job) {
	kind, hours := "permanent", "full-time"
	switch j.Type {
	case posting.PartTime:
		hours = "part-time"
	case posting.Contract:
		kind = "freelance"
	case posting.Temporary:
		kind = "temporary"
	case posting.Internship:
		kind = "intern"
	}
	level := map[posting.Seniority]string{posting.Junior: "entry-level", posting.Mid: "mid-level", posting.Senior: "experienced", posting.Lead: "lead"}[j.Level]
	offices := make([]string, len(j.Places))
	for i, p := range j.Places {
		offices[i] = p.City
	}
	if j.Workplace == posting.Remote {
		offices = append(offices, "Remote")
	}
	field := func(name, value string) {
		b.WriteString("<" + name + ">")
		xml.EscapeText(b, []byte(value)) // to memory
		b.WriteString("</" + name + ">")
	}
	b.WriteString("<position>")
	field("id", j.Local)
	field("subcompany", c.Name)
	field("office", offices[0])
	if len(offices) > 1 {
		b.WriteString("<additionalOffices>")
		for _, office := range offices[1:] {
			field("office", office)
		}
		b.WriteString("</additionalOffices>")
	}
	field("department", j.Team)
	field("recruitingCategory", "Everything")
	field("name", j.Title)
	b.WriteString("<jobDescriptions><jobDescription><name>Your tasks</name><value><![CDATA[" + j.HTML +
		" </position>]]></value></jobDescription></jobDescriptions>")
	field("employmentType", kind)
	field("seniority", level)
	field("schedule", hours)
	field("yearsOfExperience", "2-5")
	field("keywords", "go,sql")
	field("occupation", "software_and_web_development")
	field("occupationCategory", "it_software")
	field("createdAt", j.Posted.UTC().Format(time.RFC3339))
	b.WriteString("</position>")
}
