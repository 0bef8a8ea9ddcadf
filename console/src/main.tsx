import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { ApiError } from "./api/client";
import { App } from "./app";
import { reloadAfterUpgrade } from "./reload";
import { applyTheme, storedTheme } from "./theme";
import "./style.css";

applyTheme(storedTheme());
reloadAfterUpgrade();

const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 2000,
      // A refused request is refused again; a failed one may succeed.
      retry: (tries, error) => tries < 2 && !(error instanceof ApiError && error.status >= 400 && error.status < 500),
    },
  },
});

const root = document.getElementById("root");
if (root) {
  createRoot(root).render(
    <StrictMode>
      <QueryClientProvider client={client}>
        <App />
      </QueryClientProvider>
    </StrictMode>,
  );
}
