// The calls of the README's loop, by the package that openapi-generator has made for Go.
package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"reflect"

	made "github.com/GIT_USER_ID/GIT_REPO_ID"
)

// ok returns what is answered, which must be success.
func ok[T any](answer T, _ *http.Response, err error) T {
	if refused, is := err.(*made.GenericOpenAPIError); is {
		panic(string(refused.Body()))
	} else if err != nil {
		panic(err)
	}
	return answer
}

func same(found, expected any) {
	if !reflect.DeepEqual(found, expected) {
		panic(fmt.Sprintf("%v is not %v", found, expected))
	}
}

func main() {
	org, team, agent := "acme", os.Getenv("TEAM"), os.Getenv("AGENT")
	configuration := made.NewConfiguration()
	configuration.Servers = made.ServerConfigurations{{URL: os.Getenv("BASE")}}
	keys := map[string]made.APIKey{"apiKeyHeader": {Key: os.Getenv("KEY")}}
	ctx := context.WithValue(context.Background(), made.ContextAPIKeys, keys)
	client := made.NewAPIClient(configuration)
	teams, registries := client.TeamsAPI, client.RegistriesAPI

	published := made.CreateArtifactVersion{
		RegistryRef: "acme/texts", ArtifactType: made.PROMPT, Name: "gopher",
		Version: "1.0.0", Source: "Test {{WHAT}}.",
	}
	version := ok(registries.ArtifactVersionPublish(ctx).CreateArtifactVersion(published).Execute())
	same(version.Variables, []string{"WHAT"})
	label := made.SetLabel{
		RegistryRef: "acme/texts", PromptName: "gopher", Label: "production",
	}
	// Null would remove the label.
	number := "1.0.0"
	label.Version.Set(&number)
	ok(registries.ArtifactLabelMove(ctx).SetLabel(label).Execute())

	wanted := made.CreateTask{OrgSlug: org, Title: "Try it"}
	wanted.SetAssigneeAgentId(agent)
	task := ok(teams.TaskCreate(ctx, team).CreateTask(wanted).Execute())
	wakes := ok(teams.WakeTake(ctx, team, agent).OrgSlug(org).Wait(5).Execute()).Items
	same(len(wakes), 1)
	same(wakes[0].GetTaskId(), task.Id)
	claim := made.ClaimTask{OrgSlug: org, AgentId: agent}
	claimed := ok(teams.TaskClaim(ctx, team, task.Id).ClaimTask(claim).Execute())
	same(claimed.Status, made.IN_PROGRESS)
	same(ok(teams.TaskGet(ctx, team, task.Id).OrgSlug(org).Execute()).Title, "Try it")
	text := ok(registries.ArtifactVersionContent(ctx).
		RegistryRef("acme/texts").PromptName("gopher").Version("production").Execute())
	same(text.Compiled, "Test {{WHAT}}.")
	message := made.CreateInboxMessage{OrgSlug: org, FromAgentId: agent, Body: "It happens."}
	message.SetTaskId(task.Id)
	ok(teams.InboxMessageCreate(ctx, team).CreateInboxMessage(message).Execute())
	patch := made.TaskPatch{OrgSlug: org}
	patch.SetStatus(made.DONE)
	done := ok(teams.TaskUpdate(ctx, team, task.Id).TaskPatch(patch).Execute())
	same(done.Status, made.DONE)
	taken := made.AckWakes{OrgSlug: org, WakeIds: []string{wakes[0].Id}}
	acknowledged := ok(teams.WakeAcknowledge(ctx, team, agent).AckWakes(taken).Execute())
	same(acknowledged.Acknowledged, int32(1))
	_, response, err := teams.TaskGet(ctx, team, task.Id).OrgSlug("other").Execute()
	if err == nil || response.StatusCode != http.StatusNotFound {
		panic("another organization is found")
	}
	fmt.Println("done")
}
