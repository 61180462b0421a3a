//! What the model does before it answers, as the parts that clients draw: retrieval as tools,
//! thoughts as reasoning.

use bytes::BytesMut;

use super::part::{Details, Json, Numbered, Part, ProviderMetadata};
use super::{AiSdkSpelling, write, write_close};
use crate::wire::EncodeError;
use crate::wire::activity::Activity;

/// The mark of the result with which a search without one is closed.
pub(super) const SEARCH: Details<'static> = Details {
    event: "search",
    id: None,
    iteration: None,
    description: None,
    parameters: None,
    duration_ms: None,
    round: None,
    max_rounds: None,
    timestamp: None,
};

impl AiSdkSpelling {
    /// Writes the calls and results as which an event of retrieval is shown.
    pub(super) fn write_activities(
        &mut self,
        activities: &[Activity<'_>],
        details: &Details<'_>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        for activity in activities {
            match activity {
                Activity::Call { id, tool, input } => {
                    self.close_text(out);
                    self.open_call(id, tool, Json::Input(*input), Some(details), out)?;
                }
                Activity::Result { id, output, .. } => self.check(
                    &Part::ToolOutputAvailable {
                        tool_call_id: id,
                        output: Json::Output(*output),
                        dynamic: true,
                        provider_metadata: Some(ProviderMetadata { ragwire: details }),
                    },
                    out,
                )?,
            }
        }
        Ok(())
    }

    /// Closes the searches without a result, which would look busy beside the answer.
    pub(super) fn close_searches(&mut self, error_text: Option<&str>, out: &mut BytesMut) {
        let provider_metadata = Some(ProviderMetadata { ragwire: &SEARCH });
        for activity in self.activities.close() {
            match activity {
                Activity::Result { id, .. } => write_close(&id, error_text, provider_metadata, out),
                // Closing calls nothing.
                Activity::Call { .. } => {}
            }
        }
    }

    /// Writes a thought, or the next piece of the thought with this ID, which stays open.
    pub(super) fn write_thought(
        &mut self,
        thought: Option<&str>,
        content: &str,
        details: &Details<'_>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        let continues = thought.is_some() && self.thought.as_deref() == thought;
        if !continues {
            self.close_thought(out);
            self.close_text(out);
            self.state.reasonings += 1;
            let provider_metadata = ProviderMetadata { ragwire: details };
            let id = self.reasoning_id();
            self.check(
                &Part::ReasoningStart {
                    id,
                    provider_metadata,
                },
                out,
            )?;
        }
        let id = self.reasoning_id();
        self.check(&Part::ReasoningDelta { id, delta: content }, out)?;
        match thought {
            Some(thought) if !continues => self.thought = Some(thought.into()),
            Some(_) => {}
            None => self.check(&Part::ReasoningEnd { id }, out)?,
        }
        Ok(())
    }

    /// Ends the thought whose pieces are being written. Any other frame does.
    pub(super) fn close_thought(&mut self, out: &mut BytesMut) {
        if self.thought.take().is_some() {
            let id = self.reasoning_id();
            write(&Part::ReasoningEnd { id }, out);
        }
    }

    fn reasoning_id(&self) -> Numbered {
        Numbered("reasoning", self.state.reasonings)
    }

    /// Writes a call that the page does not run.
    pub(super) fn open_call(
        &self,
        id: &str,
        tool: &str,
        input: Json<'_>,
        details: Option<&Details<'_>>,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        self.open_tool(id, tool, input, details, true, out)
    }

    pub(super) fn open_tool(
        &self,
        id: &str,
        tool: &str,
        input: Json<'_>,
        details: Option<&Details<'_>>,
        provider_executed: bool,
        out: &mut BytesMut,
    ) -> Result<(), EncodeError> {
        self.check(
            &Part::ToolInputStart {
                tool_call_id: id,
                tool_name: tool,
                dynamic: true,
                provider_executed,
            },
            out,
        )?;
        self.check(
            &Part::ToolInputAvailable {
                tool_call_id: id,
                tool_name: tool,
                input,
                dynamic: true,
                provider_executed,
                provider_metadata: details.map(|ragwire| ProviderMetadata { ragwire }),
            },
            out,
        )
    }
}
