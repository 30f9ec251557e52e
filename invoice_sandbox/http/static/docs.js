// Starts Swagger UI with what the server wrote into the page.
"use strict";

(() => {
  const { config, root, publicUrl, demoKey } = document.getElementById("swagger-ui").dataset;
  const { url: _, urls, ...options } = JSON.parse(config);
  const here = new URL(root || ".", location.href).href.replace(/\/$/, "");

  // The contract names one address of this server; the page may have been opened at another.
  const stayHere = (request) => {
    if (publicUrl && request.url.startsWith(`${publicUrl}/`)) {
      request.url = here + request.url.slice(publicUrl.length);
    }
    return request;
  };

  // A number that was used before makes a duplicate. So each visit gets examples with another one,
  // and each "Execute" after the first one makes it another again.
  const visit = Date.now().toString(36).toUpperCase();
  let executed = 0;
  const withNewNumber = (request) => {
    if (typeof request.body === "string" && request.body.includes(visit)) {
      executed += 1;
      if (executed > 1) request.body = request.body.replaceAll(visit, `${visit}${executed}`);
    }
    return request;
  };
  const withNewNumbers = (response) => {
    if (!/\/openapi\.json$/.test(new URL(response.url, location.href).pathname)) return response;
    const contract = JSON.parse(response.text);
    const operations = Object.values(contract.paths ?? {}).flatMap(Object.values);
    const bodies = operations.flatMap((one) => Object.values(one.requestBody?.content ?? {}));
    for (const example of bodies.flatMap((one) => Object.values(one.examples ?? {}))) {
      for (const name of example["x-unique"] ?? []) example.value[name] += `-${visit}`;
    }
    response.text = JSON.stringify(contract);
    return response;
  };

  // A key that the visitor chose stays.
  const authorize = () => {
    if (demoKey && !ui.authSelectors.authorized().has("bearerAuth")) {
      ui.preauthorizeApiKey("bearerAuth", demoKey);
    }
  };

  // The bundled logo brings an inline style, which the page's policy forbids.
  const withoutLogo = { components: { Logo: () => null } };

  const ui = SwaggerUIBundle({
    ...options,
    urls: urls.map(({ name, url }) => ({ name, url: here + url })),
    presets: [SwaggerUIBundle.presets.apis, SwaggerUIStandalonePreset],
    plugins: [withoutLogo],
    requestInterceptor: (request) => withNewNumber(stayHere(request)),
    responseInterceptor: withNewNumbers,
    onComplete: authorize,
  });
})();
